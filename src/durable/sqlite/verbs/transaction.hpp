// The elements of a transaction: one that the database refuses does not disturb the others.
#pragma once

#include "../../batch_limits.hpp"
#include "../file/connection.hpp"
#include "../file/failure.hpp"
#include "../file/statement.hpp"
#include "../file/times.hpp"
#include "revisions.hpp"

#include <tickwheel/durable/store.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace tickwheel::durable::sqlite {

/// The state that the verbs of one transaction share.
///
/// A transaction first runs its elements as they are. If the database refuses one, `start_over` is thrown, and the transaction
/// runs again with a savepoint around each element. A savepoint copies each page that its element changes.
class transaction {
 public:
  /// Thrown to run the transaction again.
  class start_over {};

  /// `starts_wait` is true while starts wait for the writer.
  transaction(const connection& file, revisions& counter, const std::atomic<bool>& starts_wait)
      : file_{file},
        counter_{counter},
        starts_wait_{starts_wait},
        begin_{file.get(), "begin immediate"},
        commit_{file.get(), "commit"},
        mark_{file.get(), "savepoint element"},
        unmark_{file.get(), "release element"},
        undo_{file.get(), "rollback to element"} {}

  /// Before the first `begin` of a batch.
  void renew() noexcept {
    is_careful_ = false;
    refused_.clear();
  }
  void begin() {
    is_short_ = std::chrono::steady_clock::now() < starts_until_;
    is_first_ = true;
    delays_since_.reset();
    query{begin_}.run();
  }
  /// There was a start, and others are expected: requests are committed in small parts.
  void expect_starts() noexcept { starts_until_ = std::chrono::steady_clock::now() + detail::limits.starts_last; }
  void commit() { query{commit_}.run(); }
  /// Rolls back, and prepares another run of the same batch.
  void roll_back() noexcept {
    file_.rollback();
    counter_.forget();
  }

  void set_time(nanoseconds now, nanoseconds keep_finished) noexcept {
    now_ = now;
    forgotten_ = now - keep_finished;
  }
  /// Returns the time of this transaction.
  nanoseconds now() const noexcept { return now_; }
  /// Tasks that ended at this time or before are forgotten.
  nanoseconds forgotten() const noexcept { return forgotten_; }
  revisions& counter() noexcept { return counter_; }

  /// Runs `change` for the element `index` of `call`. Returns false if the database refuses it: then it has changed nothing.
  /// Passes other failures on.
  template <class F>
  bool element(const store_call& call, std::size_t index, F&& change) {
    if (!is_careful_) {
      try {
        change();
        return true;
      } catch (const failure& f) {
        if (!f.is_refusal()) throw;
        last_refusal_ = f;
        is_careful_ = true;
        throw start_over{};
      }
    }
    for (const auto& [refused_call, refused_index] : refused_)
      if (refused_call == &call && refused_index == index) return false;
    query{mark_}.run();
    try {
      change();
    } catch (const failure& f) {
      if (!f.is_refusal()) throw;
      last_refusal_ = f;
      if (!file_.in_transaction()) {  // a trigger has rolled all back
        refused_.emplace_back(&call, index);
        throw start_over{};
      }
      query{undo_}.run();
      query{unmark_}.run();
      return false;
    }
    query{unmark_}.run();
    return true;
  }

  /// Calls `run` for the elements of a request from `first` to `count`, unless the transaction gives way. Returns the element that
  /// is next.
  template <class F>
  std::size_t elements(std::size_t first, std::size_t count, F&& run) {
    while (first < count && !gives_way()) run(first++);
    return first;
  }
  /// Returns true if requests have delayed starts for long enough. The first element of a transaction never gives way, so that each
  /// transaction gets on. Reads the clock only while there are starts.
  bool gives_way() noexcept {
    if (std::exchange(is_first_, false)) return false;
    if (!is_short_ && !starts_wait_.load(std::memory_order_relaxed)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!delays_since_) delays_since_ = now;
    return now - *delays_since_ >= detail::limits.delay;
  }

  /// Returns true if an element was refused in the last batch; `last_refusal` says why.
  bool had_refusal() const noexcept { return is_careful_; }
  const failure& last_refusal() const noexcept { return last_refusal_; }

 private:
  const connection& file_;
  revisions& counter_;
  const std::atomic<bool>& starts_wait_;
  std::chrono::steady_clock::time_point starts_until_{};
  bool is_short_ = false;
  bool is_first_ = true;
  std::optional<std::chrono::steady_clock::time_point> delays_since_;
  statement begin_, commit_, mark_, unmark_, undo_;
  nanoseconds now_ = 0;
  nanoseconds forgotten_ = 0;
  bool is_careful_ = false;
  std::vector<std::pair<const store_call*, std::size_t>> refused_;
  failure last_refusal_{0, 0, {}};
};

}  // namespace tickwheel::durable::sqlite
