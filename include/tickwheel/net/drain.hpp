// Ends many connections gracefully, when a server stops or is replaced.
//
// Stop accepting connections, then start the drain. Idle connections are told to close at once. A connection with a request may
// finish it, and is then told to close. Connections that are still there at the hard stop are told to stop immediately. They are
// told one after the other and not in one tick, because their peers will return with the requests that they lost. The owner is
// notified when the last connection has left.
//
//   class connection {
//    public:
//     explicit connection(server& s) : draining_{s.drain(), *this} {}
//     void on_request() { draining_.begin_request(); ... }
//     void on_response_written() { draining_.end_request(); }
//    private:
//     void on_drain(tickwheel::drain_call) noexcept { close(); }      // may `delete this`
//     tickwheel::drain_member<&connection::on_drain> draining_;
//   };
//
//   class server {
//     int on_sigterm() { close_listener(); return drain_.start({.hard_stop = 30s, .spread = 5s}); }
//     void on_drained() noexcept;                                     // may destroy the server
//     tickwheel::drain<&server::on_drained> drain_{timers, *this};
//   };
//
// Handlers are called in passes of the service, some hundreds in each pass, so that a hundred thousand idle connections do not
// block I/O. Until the hard stop, a request that had arrived before its connection was told to close is served.
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/net/detail/argument_handler.hpp>
#include <tickwheel/uv/timer.hpp>

#include <boost/intrusive/list.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tickwheel {

/// Why a member of a drain must leave.
enum class drain_call : std::uint8_t {
  idle,       ///< it has no request: close. If a request arrives first, it may serve the request, and is told again
  hard_stop,  ///< its time is over: stop, even during a request. This is the last call
};

/// The times of a drain.
struct drain_limits {
  /// How much time busy members have, from the start. Must be positive. nanoseconds::max(): no limit.
  std::chrono::nanoseconds hard_stop = std::chrono::seconds{30};
  /// The time after `hard_stop` over which the hard stops are spread. Not negative; zero: all at once.
  std::chrono::nanoseconds spread = std::chrono::seconds{5};
  /// Chooses the time of each hard stop within its share of `spread`. The same seed gives the same times. Give different seeds to
  /// processes that drain together.
  std::uint64_t seed = 0;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    if (hard_stop.count() <= 0) return "drain_limits::hard_stop is not positive";
    if (spread.count() < 0) return "drain_limits::spread is negative";
    return nullptr;
  }
};

/// The part of a drain that its members see. Create a `drain`, which derives from it. *Thread safety, complexity, errors,
/// lifetime:* as `drain`.
class TICKWHEEL_API drain_group : private timer {
 public:
  /// Starts to drain: from a tick later on, the members are told to close. One that joins later is told after the next poll. Calls no
  /// handler itself. Reads the clock.
  ///
  /// 0: it is draining. On an error nothing has changed.
  /// UV_EINVAL: `limits` is invalid; `limits.problem()` names the field.
  /// UV_EALREADY: it is already draining.
  /// UV_ENOBUFS, UV_ECANCELED: as `timer::arm`.
  [[nodiscard]] int start(const drain_limits& limits) noexcept;

  /// Stops draining, as if it had not been started. Returns true if it was draining. Members that were told to close are not told
  /// of this, and the owner is not notified. O(members that were told).
  bool cancel() noexcept;

  /// Returns true from `start` until the owner is notified that all have left, `cancel` is called, or the service closes. Check
  /// it when you answer a request, and then say "Connection: close".
  bool draining() const noexcept { return timer::armed(); }

  /// Returns the number of members.
  std::size_t size() const noexcept { return untold_.size() + waiting_.size() + stopped_.size(); }

  using timer::callback;
  using timer::handler;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 protected:
  /// The function that is called when the last member has left.
  using drained = void (*)(drain_group&) noexcept;

  /// Requires: `visits` only calls `visit`; `done` is not null; `service` outlives every `start`.
  drain_group(timer_service& service, callback visits, drained done) noexcept : timer{service, visits}, done_{done} {}
  ~drain_group();

  /// Tells members, or the owner that all have left.
  static void visit(wheel_entry& entry) noexcept;

 private:
  template <auto Member, class>
  requires noexcept_argument_handler<Member, drain_call>
  friend class drain_member;

  enum class place : std::uint8_t { untold, waiting, stopped };

  class member : public boost::intrusive::list_base_hook<> {
   public:
    using callback = void (*)(member&, drain_call) noexcept;
    member(drain_group& of, callback told) noexcept : group{&of}, call{told} {}

    drain_group* group;  // null: it left
    callback call;
    place in = place::untold;
    bool is_busy = false;
    bool was_told = false;  // when it began to wait: it was called, and was not busy
    // Untold: no pass up to this one tells it. Otherwise: this one told it, or found it busy.
    std::uint32_t last_pass = 0;
  };
  using members = boost::intrusive::list<member>;

  void join(member& m) noexcept;
  void leave(member& m) noexcept;
  void became_idle(member& m) noexcept;
  void forget_told() noexcept;

  void tell(clock::time_point now) noexcept;
  bool stop_is_due(clock::time_point now) noexcept;
  void plan_stop() noexcept;
  bool is_telling() const noexcept { return destroyed_ != nullptr; }
  bool has_work_now() const noexcept;
  clock::time_point next_work() const noexcept;
  void schedule() noexcept;
  std::uint32_t last_pass_before_poll() const noexcept;
  void move(member& m, place to) noexcept;
  members& list_of(place p) noexcept;

  // All members are untold unless it is draining. During a drain, the members that were visited wait for the hard stop, either
  // busy or already told. A waiting member that becomes idle is untold again.
  members untold_, waiting_, stopped_;
  drained done_;
  drain_limits limits_{};
  clock::time_point hard_stop_at_{};
  clock::time_point next_stop_{};  // of the first waiting member
  detail::splitmix64 random_{0};
  std::uint32_t passes_ = 0;         // number of passes that told members; may wrap
  std::uint64_t starts_ = 0;         // number of starts: shows that a handler ended the drain and began another
  std::uint64_t stops_ = 0;          // number of planned stops, with the next one; 0: before the hard stop
  std::uint64_t to_be_stopped_ = 0;  // number of members at the hard stop
  bool* destroyed_ = nullptr;        // while handlers are called: set by the destructor
};

/// Drains the connections that are its members, and calls a member function of its owner when all have left.
///
/// *Thread safety:* the loop thread only; arming and cancelling its timer check that. *Complexity:* joining, leaving,
/// `begin_request` and `end_request` are O(1); destroying it is O(members). Nothing allocates. One timer serves all members. A
/// pass tells up to 256 of them; the next one follows a tick later, after I/O. *Errors:* only `start` can fail. *Lifetime:* it
/// may be destroyed at any time, also in its own handler or in that of a member. Its members then belong to no drain, and may be
/// destroyed later. Destroying it runs no handler.
///
/// The owner is notified in a pass, also if there was no member at the start. The drain has then ended. It is not notified before
/// every member has left, including members that were told to stop and have not left yet.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class drain : public drain_group, private detail::member_call<drain<Member, F>, Member> {
 public:
  using typename drain::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this drain; `service` outlives every `start`.
  drain(timer_service& service, owner& self) noexcept
      : drain_group{service, handler(), [](drain_group& group) noexcept { static_cast<drain&>(group).call(); }},
        drain::member_call{self} {}

  /// Tells its handler from others; see `timer::handler`. The calls of its members belong to it.
  static callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &run;
  }

 private:
  // each drain has a function of its own, by which reports tell it from others
  static void run(tickwheel::wheel_entry& entry) noexcept { drain_group::visit(entry); }

  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&run, detail::name_of_member<Member>()};
};

/// Makes the object that embeds it a member of a drain, from its construction to its destruction. It is idle at first. The
/// handler is called during a drain, and may do anything. It must make the member leave, at once or later: a socket, for
/// instance, is closed only in a callback.
///
/// *Thread safety, complexity:* as `drain`. *Errors:* none. *Lifetime:* neither copies nor moves. It may be destroyed at any
/// time, in any handler, before or after its drain.
template <auto Member, class F = decltype(Member)>
requires noexcept_argument_handler<Member, drain_call>
class drain_member : private drain_group::member,
                     private detail::member_call<drain_member<Member, F>, Member, drain_call> {
 public:
  using typename drain_member::member_call::owner;  ///< the class of the handler

  /// Requires: `self` lives as long as this member; usually it is the connection that embeds it.
  drain_member(drain_group& of, owner& self) noexcept
      : drain_group::member{of, &told}, drain_member::member_call{self} {
    of.join(*this);
  }
  ~drain_member() { leave(); }
  drain_member(const drain_member&) = delete;
  drain_member& operator=(const drain_member&) = delete;

  /// Reports that a request begins: the member is not told to close before `end_request`. Stores a flag, and nothing else.
  void begin_request() noexcept { is_busy = true; }

  /// Reports that the request is over. During a drain, the handler is called after the next poll if the member was busy and was not
  /// told to stop. If the member ends a request in each iteration of the loop, the drain calls it at the hard stop: from then on the
  /// drain does not wait for a poll after a request. A member that was told before its request is stopped in its turn.
  void end_request() noexcept {
    if (!is_busy) return;
    is_busy = false;
    if (group != nullptr && group->draining() && in != drain_group::place::stopped) group->became_idle(*this);
  }

  /// Leaves the drain before the destruction: the member is not called any more, and the drain does not wait for it. Idempotent.
  void leave() noexcept {
    if (group != nullptr) group->leave(*this);
  }

  /// Returns true between `begin_request` and `end_request`.
  bool in_flight() const noexcept { return is_busy; }

 private:
  static void told(drain_group::member& m, drain_call why) noexcept {
    static_cast<drain_member&>(m).member_call::call(why);
  }
};

}  // namespace tickwheel
