// The end of a session: of its backends, its membership and its partitions.
#pragma once

#include "../link/node_state.hpp"
#include "../sql/transaction.hpp"

#include <tickwheel/durable/store.hpp>

#include <cstdint>

namespace tickwheel::durable::postgres {

/// Ends a session in several transactions. First those of its backends that do something: one whose client is stopped may hold
/// locks for ever. When they are gone, the session is deleted and its partitions are free. A lock that excludes that is not waited
/// for in a transaction, because renewals use the same link.
class burial {
 public:
  static constexpr std::uint64_t any_beat = 0;  // of no session

  /// Only if its beat is still this one, or with any.
  void begin(session_number session, std::uint64_t beat) noexcept { *this = burial{session, beat}; }
  /// A session of this store, which has no backends but those that it uses.
  void begin_own(session_number session) noexcept {
    begin(session, any_beat);
    backends_are_gone_ = true;
  }
  bool is_active() const noexcept { return session_ != 0; }

  void ask(transaction&) const;
  /// Returns true if it has ended. Otherwise it shall be asked again, after a pause if `must_wait`.
  bool take(const transaction&);
  bool must_wait() const noexcept { return !backends_are_gone_ || is_locked_; }
  /// After the end: the session is gone.
  bool is_buried() const noexcept { return is_buried_; }
  /// After the end: another client has held the row of the session for too long.
  bool is_locked() const noexcept { return is_locked_; }
  static constexpr const char* locked = "another client holds the row of a node";
  session_number session() const noexcept { return session_; }

  burial() = default;

 private:
  burial(session_number session, std::uint64_t beat) noexcept : session_{session}, beat_{beat} {}

  // A backend of another role cannot be ended without the right to. A transaction that it has begun still excludes the burial.
  static constexpr int most_looks = 100;

  session_number session_ = 0;
  std::uint64_t beat_ = 0;
  int looks_ = 0;
  bool backends_are_gone_ = false;
  bool is_buried_ = false;
  bool is_locked_ = false;
};

}  // namespace tickwheel::durable::postgres
