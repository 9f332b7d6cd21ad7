// One interpreter of operations on a wheel, checked against a std::multimap, a model that is too simple to be wrong.
//
// The bytes of an input say the geometry, the origin and then operation after operation: arm, re-arm, cancel, destroy,
// advance by any amount with any work bound; and what each callback does in its turn. The same interpreter runs a small
// corpus as a test, random input for as long as one likes, and what a fuzzer finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tickwheel::test {

struct operations_result {
  std::size_t operations = 0;           ///< that were carried out, those of callbacks included
  std::size_t fired = 0;                ///< callbacks that ran
  std::optional<std::string> mismatch;  ///< what the wheel and the model disagree about; the input stops there
};

/// Carries out the operations that `input` spells. Any input is legal. With `validate_each`, every invariant of the
/// wheel is checked after each operation, not only at the end.
operations_result run_operations(std::span<const std::uint8_t> input, bool validate_each);

}  // namespace tickwheel::test
