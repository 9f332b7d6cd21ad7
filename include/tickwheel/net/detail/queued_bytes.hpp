// The number of bytes queued for a peer, as last reported, and how an idle timeout may ask for it.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace tickwheel::detail {

/// A value of one word.
class queued_bytes {
 public:
  bool none() const noexcept { return bytes_ == 0; }
  /// Returns true if `bytes` are fewer than were queued last: the peer took the difference.
  bool shrunk_to(std::size_t bytes) const noexcept { return bytes < bytes_; }
  void now(std::size_t bytes) noexcept { bytes_ = bytes; }
  /// Saturates.
  void grew_by(std::size_t bytes) noexcept {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    bytes_ = bytes > most - bytes_ ? most : bytes_ + bytes;
  }

 private:
  std::size_t bytes_ = 0;
};

/// Replaces `queued_bytes` if no queue is watched.
struct no_queue {
  static constexpr bool none() noexcept { return false; }
};

/// `Queued` is nullptr, or a pointer to a const noexcept member function of `Owner` that answers a number of bytes.
template <auto Queued, class Owner>
concept queued_bytes_of = std::same_as<decltype(Queued), std::nullptr_t> ||
    std::is_nothrow_invocable_r_v<std::size_t, decltype(Queued), const Owner&>;

template <auto Queued>
inline constexpr bool can_be_asked = !std::same_as<decltype(Queued), std::nullptr_t>;

/// How often to ask per limit. With four checks, a peer that stops right after one is noticed a quarter of the limit late.
template <auto Queued>
inline constexpr int checks_per_limit = can_be_asked<Queued> ? 4 : 1;

}  // namespace tickwheel::detail
