// Ends many connections gracefully: a server that is to stop, or to be replaced.
//
// Stop accepting, then start the drain. Connections without a request are told to close at once. Those with one may finish it
// and are told then. Those that have not by the hard stop are told to stop as they are. That comes one after the other and not
// all in one tick, because their peers will come back with what they lost. When the last has left, the owner hears.
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
// Handlers are called in passes of the service, some hundreds each, so that a hundred thousand idle connections do not keep
// I/O from its turn. A request that had arrived before its connection was told is served.
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

/// Why a member of a drain is to leave.
enum class drain_call : std::uint8_t {
  idle,       ///< it has no request: close. One that gets a request first may serve it, and is told again
  hard_stop,  ///< its time is over: stop, whatever it is doing. The last call
};

/// How a drain goes.
struct drain_limits {
  /// How long members that are busy have, from the start. Must be positive; nanoseconds::max(): as long as they want.
  std::chrono::nanoseconds hard_stop = std::chrono::seconds{30};
  /// Over how long the hard stops are spread, after that. Not negative; zero: all at once.
  std::chrono::nanoseconds spread = std::chrono::seconds{5};
  /// Decides when within its share of `spread` each hard stop comes. The same seed gives the same times; give processes
  /// that drain together different ones.
  std::uint64_t seed = 0;

  /// The first field that cannot be, and why; null when all can.
  constexpr const char* problem() const noexcept {
    if (hard_stop.count() <= 0) return "drain_limits::hard_stop is not positive";
    if (spread.count() < 0) return "drain_limits::spread is negative";
    return nullptr;
  }
};

/// What the members of a drain see of it; `drain` is the one to make. *Thread safety, complexity, errors, lifetime:* as
/// `drain`.
class TICKWHEEL_API drain_group : private timer {
 public:
  /// Begins to drain: members are told from the next pass on, also those that join meanwhile. Calls no handler itself.
  ///
  /// 0; UV_EINVAL when `limits.problem()` names one; UV_EALREADY while it is draining; UV_ENOBUFS, UV_ECANCELED as
  /// `timer::arm`. On an error nothing has changed. Reads the clock.
  [[nodiscard]] int start(const drain_limits& limits) noexcept;

  /// Goes on as if it had not been started; true when it was. Members that were told know nothing of it. The owner does
  /// not hear. O(members that were told).
  bool cancel() noexcept;

  /// True from `start` until the owner is told that all are gone, `cancel`, or the service closes. Ask it when you
  /// answer, and say "Connection: close" then.
  bool draining() const noexcept { return timer::armed(); }

  /// How many members there are.
  std::size_t size() const noexcept { return untold_.size() + waiting_.size() + stopped_.size(); }

  using timer::handler;
  using timer::has_ref;  ///< as of `timer`
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

 protected:
  /// Called when the last member has left.
  using drained = void (*)(drain_group&) noexcept;

  /// Requires: `done` is not null; `service` outlives every `start`.
  drain_group(timer_service& service, drained done) noexcept : timer{service, &visit}, done_{done} {}
  ~drain_group();

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
  };
  using members = boost::intrusive::list<member>;

  void join(member& m) noexcept;
  void leave(member& m) noexcept;
  void became_idle(member& m) noexcept;
  void forget_told() noexcept;

  static void visit(wheel_entry& entry) noexcept;
  void tell(clock::time_point now) noexcept;
  bool stop_is_due(clock::time_point now) noexcept;
  void plan_stop() noexcept;
  clock::time_point next_work() const noexcept;
  void schedule() noexcept;
  void move(member& m, place to) noexcept;
  members& list_of(place p) noexcept;

  // Without a drain all members are untold. In one those that were looked at wait for the hard stop, busy or told; one
  // of them that becomes idle is untold again.
  members untold_, waiting_, stopped_;
  drained done_;
  drain_limits limits_{};
  clock::time_point hard_stop_at_{};
  clock::time_point next_stop_{};  // of the first of those that wait
  detail::splitmix64 random_{0};
  std::uint64_t starts_ = 0;         // how often it was started: a handler may have it end and begin anew
  std::uint64_t stops_ = 0;          // that were planned, the next included; 0: the hard stop has not come
  std::uint64_t to_be_stopped_ = 0;  // how many there were then
  bool* destroyed_ = nullptr;        // while handlers are called: where to say so
};

/// Drains the connections that are its members, and calls a member function of its owner when all are gone.
///
/// *Thread safety:* the loop thread only; checked where its timer is armed or cancelled. *Complexity:* joining, leaving,
/// `begin_request` and `end_request` are O(1), destroying it is O(members); nothing allocates; one timer for all members. A pass
/// tells up to 256 of them; the next follows a tick later, after I/O. *Errors:* only `start` can fail. *Lifetime:* may be
/// destroyed at any time, in a handler of its own or of a member too; its members then belong to no drain, and may be destroyed later. Destroying it
/// runs no handler.
///
/// The owner is called in a pass, also when there was no member to begin with, and then is not draining any more. It is
/// not called before every member has left, those included that were told to stop and take their time.
template <auto Member, class F = decltype(Member)>
requires noexcept_member_handler<Member>
class drain : public drain_group, private detail::member_call<drain<Member, F>, Member> {
 public:
  using typename drain::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; `service` outlives every `start`.
  drain(timer_service& service, owner& self) noexcept
      : drain_group{service, [](drain_group& group) noexcept { static_cast<drain&>(group).call(); }},
        drain::member_call{self} {}
};

/// Makes the object that embeds it a member of a drain, from its construction to its destruction. It is idle at first. The
/// handler is called while the group drains, and may do anything. It is to see to it that the member leaves: at once, or
/// later, as when a socket is closed only in a callback.
///
/// *Thread safety, complexity:* as `drain`. *Errors:* none. *Lifetime:* stays where it is; may be destroyed at any time, in any
/// handler, before or after its drain.
template <auto Member, class F = decltype(Member)>
requires noexcept_argument_handler<Member, drain_call>
class drain_member : private drain_group::member,
                     private detail::member_call<drain_member<Member, F>, Member, drain_call> {
 public:
  using typename drain_member::member_call::owner;  ///< the class that `Member` is of

  /// Requires: `self` lives as long as this does; usually it is the connection that embeds it.
  drain_member(drain_group& of, owner& self) noexcept
      : drain_group::member{of, &told}, drain_member::member_call{self} {
    of.join(*this);
  }
  ~drain_member() { leave(); }
  drain_member(const drain_member&) = delete;
  drain_member& operator=(const drain_member&) = delete;

  /// A request begins: while draining, it is not told to close before `end_request`. Stores a flag, and nothing else.
  void begin_request() noexcept { is_busy = true; }

  /// The request is over. While draining the handler is called in the next pass, if it was busy and was not told to
  /// stop.
  void end_request() noexcept {
    if (!is_busy) return;
    is_busy = false;
    if (group != nullptr && in == drain_group::place::waiting) group->became_idle(*this);
  }

  /// Leaves before its destruction: it is not called any more, and not waited for. Idempotent.
  void leave() noexcept {
    if (group != nullptr) group->leave(*this);
  }

  /// True between `begin_request` and `end_request`.
  bool in_flight() const noexcept { return is_busy; }

 private:
  static void told(drain_group::member& m, drain_call why) noexcept {
    static_cast<drain_member&>(m).member_call::call(why);
  }
};

}  // namespace tickwheel
