// An interpreter of operations on a wheel, which are compared with a model.
//
// The bytes of an input are the geometry, the origin and then operation after operation: arm, re-arm, cancel, destroy, and advance by any
// amount with any work bound. They also decide what each callback does. The same interpreter runs a small corpus as a test, random input for
// as long as one likes, and the inputs that a fuzzer finds.
#pragma once

#include "compared_wheel.hpp"

#include <cstdint>
#include <span>

namespace tickwheel::test {

/// Carries out the operations that `input` spells, up to the first mismatch. Any input is legal. With `validate_each`,
/// every invariant of the wheel is checked after each operation, not only at the end.
comparison run_operations(std::span<const std::uint8_t> input, bool validate_each);

}  // namespace tickwheel::test
