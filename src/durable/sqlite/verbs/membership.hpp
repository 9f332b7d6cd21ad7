// The session of the one node that a SQLite file has, and its partition.
#pragma once

#include "../file/times.hpp"

#include <tickwheel/durable/store.hpp>

#include <algorithm>

namespace tickwheel::durable::sqlite {

/// A session ends with the lock of the file, so it is kept in memory. A value: a copy is put back if a transaction fails.
class membership {
 public:
  /// Starts a session. Rows that run with an earlier revision are of sessions that are gone.
  void join(session_number session, nanoseconds expires) noexcept {
    *this = {};
    session_ = session;
    expires_ = expires;
  }
  void leave() noexcept { *this = {}; }

  bool is_member(session_number session) const noexcept { return session != 0 && session == session_; }
  /// Returns true if this session may start tasks.
  bool owns(session_number session) const noexcept { return is_member(session) && owns_; }
  /// Returns the number of the session, which is also a revision; 0: none.
  session_number session() const noexcept { return session_; }

  /// All but the number of the dead.
  void renew(renew_call& call, nanoseconds now) {
    call.nodes.clear();
    call.partitions.clear();
    call.free_partitions = 0;
    call.is_buried = !is_member(call.session);
    if (call.is_buried) return;
    ++beat_;
    expires_ = add(now, std::max<nanoseconds>(call.lease.count(), 0));
    call.nodes.push_back({.session = session_,
                          .beat = beat_,
                          .expires = from_database(expires_),
                          .lease = call.lease,
                          .partitions = static_cast<std::uint16_t>(owns_),
                          .is_starting = call.is_starting});
    if (owns_) call.partitions.push_back(0);
    call.free_partitions = owns_ ? 0 : 1;
  }
  void bury(bury_call& call) noexcept {
    if (is_member(call.session) && call.beat == beat_) leave();
    call.is_buried = !is_member(call.session);
  }
  void acquire(acquire_call& call) {
    call.partitions.clear();
    if (!is_member(call.session) || owns_ || call.limit == 0) return;
    call.partitions.push_back(0);
    owns_ = true;
  }
  void release(const release_call& call) noexcept {
    if (!owns(call.session)) return;
    const bool has_it = std::find(call.partitions.begin(), call.partitions.end(), 0) != call.partitions.end();
    if (has_it && call.to != session_) owns_ = false;
  }

 private:
  session_number session_ = 0;
  std::uint64_t beat_ = 0;
  nanoseconds expires_ = 0;
  bool owns_ = false;
};

}  // namespace tickwheel::durable::sqlite
