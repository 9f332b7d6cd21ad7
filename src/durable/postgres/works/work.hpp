// A call of a verb on its way: the transactions that carry it out, one after the other.
#pragma once

#include "../sql/failure.hpp"
#include "../sql/transaction.hpp"

#include <tickwheel/durable/store.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

namespace tickwheel::durable::postgres {

struct node_state;

using steady_time = tickwheel::clock::time_point;

/// Returns true for a verb that only reads: it has no effect that could be unknown.
constexpr bool only_reads(store_verb v) noexcept {
  return v == store_verb::load || v == store_verb::get || v == store_verb::list;
}

/// The link that carries a verb out.
constexpr link_role role_of(store_verb v) noexcept {
  switch (v) {
    case store_verb::begin:
    case store_verb::finish:
    case store_verb::release:
      return link_role::starts;
    case store_verb::put:
    case store_verb::cancel:
    case store_verb::revive:
    case store_verb::get:
    case store_verb::list:
    case store_verb::purge:
      return link_role::requests;
    default:
      return link_role::clock;
  }
}

/// A link asks it for a transaction, and tells it how that ended, until it has ended.
class work {
 public:
  /// `call` is null for work of the store's own.
  work(store_verb verb, store_call* call) noexcept : verb_{verb}, call_{call} {}
  work(const work&) = delete;
  work& operator=(const work&) = delete;
  virtual ~work() = default;

  store_verb verb() const noexcept { return verb_; }
  store_call* call() const noexcept { return call_; }
  bool has_ended() const noexcept { return has_ended_; }
  store_status status() const noexcept { return status_; }
  /// It has nothing to send before this time.
  virtual steady_time paused_until() const noexcept { return paused_until_; }

  /// Fills the next transaction. Requires: it has not ended.
  void ask(transaction& to, steady_time now) {
    is_sent_ = true;
    sent_at_ = now;
    on_ask(to);
  }
  /// The transaction was committed. `patience`: how long one is repeated.
  void take(const transaction& of, steady_time now, std::chrono::nanoseconds patience) {
    is_sent_ = false;
    has_effect_ = true;
    now_ = now;
    patience_ = patience;
    on_committed(of);
  }
  /// The transaction was rolled back.
  void fail(const failure&, steady_time now, std::chrono::nanoseconds patience);
  /// The connection is lost. Ends the work: it may have had an effect if it was sent.
  void lose() noexcept { end(doubt()); }
  void end(store_status status = store_status::ok) noexcept {
    status_ = status;
    has_ended_ = true;
  }

  /// Returns true if this work must wait for `earlier`, which runs or pauses. There is no order among the verbs of the clock link.
  virtual bool must_follow(const work& /*earlier*/) const { return role_of(verb_) != link_role::clock; }
  /// Returns true if the works behind it in the lane go before its next transaction.
  virtual bool gives_way() const { return false; }
  /// Returns true if it has an element of this id that is not answered. True for all ids if it cannot tell.
  virtual bool is_about(std::string_view /*id*/) const { return true; }

 protected:
  virtual void on_ask(transaction&) = 0;
  virtual void on_committed(const transaction&) = 0;
  /// The transaction that failed shall be asked for again.
  virtual void on_repeat() {}
  /// The transaction that failed waited for a lock, or was cancelled, after `on_repeat`. Returns true if a smaller one is asked for next.
  virtual bool narrow() { return false; }
  /// The transaction that failed was repeated for long enough.
  virtual void on_tired() { on_given_up(); }
  /// The server refuses an element.
  virtual void on_refused() { on_given_up(); }
  /// The server has met a row or an index that is damaged.
  virtual void on_damaged() { on_given_up(); }
  /// The transaction that failed is not repeated, nor is another one.
  virtual void on_given_up() { end(doubt()); }

  void pause(std::chrono::nanoseconds delay) noexcept { paused_until_ = now_ + delay; }
  /// Pauses before a repetition: longer from one to the next.
  void pause() noexcept;
  /// Returns true if it was repeated for long enough.
  bool is_tired() noexcept;
  store_status doubt() const noexcept {
    return (is_sent_ || has_effect_) && !only_reads(verb_) ? store_status::unknown : store_status::unavailable;
  }
  bool has_committed() const noexcept { return has_effect_; }
  steady_time now() const noexcept { return now_; }
  /// Returns when the last transaction was asked for.
  steady_time asked_at() const noexcept { return sent_at_; }
  /// Returns how long the transaction took that was answered last.
  std::chrono::nanoseconds took() const noexcept { return now_ - sent_at_; }
  template <class Call>
  Call& as() const noexcept {
    return static_cast<Call&>(*call_);
  }

 private:
  const store_verb verb_;
  store_call* const call_;
  store_status status_ = store_status::unavailable;
  bool has_ended_ = false;
  bool is_sent_ = false;     // and not answered
  bool has_effect_ = false;  // a transaction was committed
  steady_time sent_at_{};
  steady_time now_{};
  steady_time paused_until_ = steady_time::min();
  std::optional<steady_time> failing_since_;
  std::chrono::nanoseconds patience_{};
  std::chrono::nanoseconds last_pause_{};
};

/// Returns the work of a call.
std::unique_ptr<work> make_work(store_verb, store_call&, node_state&);

}  // namespace tickwheel::durable::postgres
