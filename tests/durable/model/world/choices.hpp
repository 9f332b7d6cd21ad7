// The decisions of a run: drawn from a seed, or read from the bytes of a fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace durable_model {

/// Numbers that decide what a run does. The same seed, or the same bytes, give the same numbers.
class choices {
 public:
  /// Endless.
  explicit choices(std::uint64_t seed) noexcept : state_{seed * 0x9e3779b97f4a7c15U + 0x1234567}, is_endless_{true} {
    for (int i = 0; i != 4; ++i) draw();
  }
  /// Reads `bytes`, and zeros after them.
  explicit choices(std::span<const std::uint8_t> bytes) noexcept : bytes_{bytes} {}

  /// Returns true if all bytes were read.
  bool is_over() const noexcept { return !is_endless_ && bytes_.empty(); }

  /// Returns true for bytes: a fuzzer wants many short runs.
  bool is_brief() const noexcept { return !is_endless_; }

  /// Returns a number of [0, most].
  std::uint64_t up_to(std::uint64_t most) noexcept {
    if (most == 0) return 0;
    if (is_endless_) return most == ~std::uint64_t{0} ? draw() : draw() % (most + 1);
    std::uint64_t read = 0;
    for (std::uint64_t left = most; left != 0; left >>= 8) {
      read = read << 8 | (bytes_.empty() ? 0U : bytes_.front());
      if (!bytes_.empty()) bytes_ = bytes_.subspan(1);
    }
    return most == ~std::uint64_t{0} ? read : read % (most + 1);
  }
  /// Returns true once in `n` times.
  bool one_in(unsigned n) noexcept { return up_to(n - 1) == n - 1; }
  std::size_t below(std::size_t count) noexcept { return static_cast<std::size_t>(up_to(count - 1)); }

  template <class T>
  T pick(std::initializer_list<T> of) noexcept {
    return of.begin()[below(of.size())];
  }

 private:
  // xorshift64*
  std::uint64_t draw() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1dU) >> 16;
  }

  std::span<const std::uint8_t> bytes_;
  std::uint64_t state_ = 1;
  bool is_endless_ = false;
};

}  // namespace durable_model
