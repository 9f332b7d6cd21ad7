// Counts what the process allocates with operator new, and makes an allocation fail on demand.
//
//   const auto before = allocations::count();
//   timeout.arm(1s);
//   EXPECT_EQ(allocations::count(), before);
#pragma once

#include <cstddef>

namespace allocations {

std::size_t count() noexcept;        // calls of operator new so far
std::size_t bytes() noexcept;        // what they asked for, in sum
std::size_t outstanding() noexcept;  // blocks not deleted yet

/// While it lives, the allocation after the next `spared` ones fails, and so do all later ones.
class failure {
 public:
  explicit failure(std::size_t spared) noexcept;
  ~failure();
  failure(const failure&) = delete;
  failure& operator=(const failure&) = delete;

  /// True when an allocation has failed.
  bool struck() const noexcept;
};

/// What `call` answers while every allocation fails.
template <class Call>
auto without_memory(Call call) {
  const failure none{0};
  return call();
}

}  // namespace allocations
