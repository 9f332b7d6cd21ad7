// A lane sends the requests of one verb to the store, in batches.
#pragma once

#include "../batch_limits.hpp"
#include "arrivals.hpp"
#include "request.hpp"

#include <tickwheel/durable/store.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

/// The part of the engine that a lane calls.
class lane_owner {
 public:
  /// The store has answered a call.
  virtual void on_answer(const store_call&) noexcept = 0;
  /// It has not carried out a call whose requests are sent again.
  virtual void on_outage() noexcept = 0;
  /// It has carried out a call, but not all of its requests. These are sent again.
  virtual void on_left_some() noexcept = 0;
  /// The store has answered the call of `r`: it has taken effect, or will not any more.
  virtual void on_ended(request& r, store_status) noexcept = 0;
  /// The store has carried out the call of `r`, but not `r`.
  virtual void on_left(request& r) noexcept = 0;
  /// An answer is there to be taken in.
  virtual void on_arrived(arrival&) noexcept = 0;
  /// A task is pending, as of this answer.
  virtual void on_pending(pending_row&&) noexcept = 0;
  virtual store& tasks() noexcept = 0;

 protected:
  ~lane_owner() = default;
};

/// Holds the requests of one verb that may be sent, and up to two batches of them with the store: one is carried out while the next
/// is made. `Traits` moves a request into a call, and its answer out.
template <class Traits>
class batch_lane {
 public:
  using call_type = typename Traits::call;
  using request_type = typename Traits::request;

  explicit batch_lane(lane_owner& owner) noexcept : owner_{owner} {}

  void push(request_type& r) noexcept { queue_.push_back(r); }

  /// Makes batches of what is queued, as long as the store has fewer than two.
  void send() {
    for (flight& f : flights_) {
      if (queue_.empty()) return;
      if (f.is_busy) continue;
      fill(f);
      f.is_busy = true;
      (owner_.tasks().*Traits::verb)(f);
    }
  }

 private:
  static constexpr bool may_leave_held = std::is_base_of_v<write_call, call_type>;

  struct flight final : call_type, arrival {
    explicit flight(batch_lane& of) noexcept : call_type{&answer_arrived}, lane{of} {}
    bool take_in_one() noexcept override { return lane.take_in_one(*this); }
    batch_lane& lane;
    std::vector<request_type*> requests;
    std::size_t taken_in = 0;  // pending rows, then requests
    bool is_busy = false;
  };

  void fill(flight& f) {
    f.requests.clear();
    f.taken_in = 0;
    Traits::clear(f);
    if constexpr (may_leave_held) {
      f.held.clear();
      f.leaves_held = true;
    }
    std::size_t bytes = 0;
    while (!queue_.empty() && f.requests.size() < Traits::most) {
      auto& r = static_cast<request_type&>(queue_.front());
      if (bytes != 0 && bytes + r.bytes > limits.bytes) return;
      // one that was left may delay its batch again
      if (!f.requests.empty() && r.was_left != f.requests.front()->was_left) return;
      bytes += r.bytes;
      queue_.pop_front();
      r.at = request::stage::sent;
      Traits::add(f, r);
      f.requests.push_back(&r);
    }
  }

  static store_status status_of(const flight& f, std::size_t i) noexcept {
    return i < f.carried_out ? store_status::ok : f.status;
  }
  static bool is_left(const flight& f, std::size_t i) noexcept {
    if (status_of(f, i) != store_status::ok) return false;
    if constexpr (requires { Traits::has_answer(f, i); })
      if (!Traits::has_answer(f, i)) return true;
    if constexpr (may_leave_held) return i < f.held.size() && f.held[i];
    return false;
  }

  static void answer_arrived(store_call& answered) noexcept {
    auto& f = static_cast<flight&>(static_cast<call_type&>(answered));
    batch_lane& lane = f.lane;
    lane.owner_.on_answer(f);
    bool has_left = false;
    for (std::size_t i = 0; i != f.requests.size(); ++i) {
      request_type& r = *f.requests[i];
      if (is_left(f, i)) {
        has_left = true;
        if constexpr (requires { Traits::take_back(f, i, r); }) Traits::take_back(f, i, r);
      } else if (status_of(f, i) == store_status::ok && !r.is_answered) {  // one that has expired was answered already
        Traits::take(f, i, r);
        r.is_answered = true;
      }
    }
    if (has_left) lane.owner_.on_left_some();
    if (f.status != store_status::ok && f.requests.front()->is_repeated()) lane.owner_.on_outage();
    lane.owner_.on_arrived(f);
  }

  // The pending rows come before the ends. Once a request has ended, the next one of its id may be sent, and make its row an old one.
  bool take_in_one(flight& f) noexcept {
    std::size_t rows = 0;
    if constexpr (requires { f.pending; }) {
      if (f.status == store_status::ok) rows = f.pending.size();
      if (f.taken_in < rows) {
        owner_.on_pending(std::move(f.pending[f.taken_in++]));
        return true;
      }
    }
    end(f, f.taken_in++ - rows);
    f.is_busy = f.taken_in - rows != f.requests.size();
    return f.is_busy;
  }

  // It may free the request.
  void end(const flight& f, std::size_t i) noexcept {
    if (is_left(f, i)) return owner_.on_left(*f.requests[i]);
    owner_.on_ended(*f.requests[i], status_of(f, i));
  }

  lane_owner& owner_;
  request_queue queue_;
  std::array<flight, 2> flights_{flight{*this}, flight{*this}};
};

struct put_traits {
  using call = put_call;
  using request = put_request;
  static constexpr auto verb = &store::put;
  static constexpr std::size_t most = limits.elements;
  static void clear(call& c) noexcept {
    c.items.clear();
    c.results.clear();
  }
  static void add(call& c, request& r) {
    r.row.at = r.what.due;
    r.row.bytes = static_cast<std::uint32_t>(r.what.payload.size());
    c.items.push_back({std::move(r.what), r.conflict});
  }
  static void take_back(call& c, std::size_t i, request& r) noexcept { r.what = std::move(c.items[i].what); }
  static void take(call& c, std::size_t i, request& r) noexcept {
    r.result = c.results[i].result;
    r.row.rev = c.results[i].rev;
    r.row.partition = c.results[i].partition;
  }
};

struct cancel_traits {
  using call = cancel_call;
  using request = cancel_request;
  static constexpr auto verb = &store::cancel;
  static constexpr std::size_t most = limits.elements;
  static void clear(call& c) noexcept {
    c.ids.clear();
    c.results.clear();
  }
  static void add(call& c, request& r) { c.ids.push_back(r.id); }
  static void take(call& c, std::size_t i, request& r) noexcept { r.result = c.results[i]; }
};

struct revive_traits {
  using call = revive_call;
  using request = revive_request;
  static constexpr auto verb = &store::revive;
  static constexpr std::size_t most = limits.elements;
  static void clear(call& c) noexcept {
    c.ids.clear();
    c.results.clear();
  }
  static void add(call& c, request& r) { c.ids.push_back(r.id); }
  static void take(call& c, std::size_t i, request& r) noexcept { r.result = c.results[i].result; }
};

struct get_traits {
  using call = get_call;
  using request = get_request;
  static constexpr auto verb = &store::get;
  static constexpr std::size_t most = limits.elements;
  static void clear(call& c) noexcept {
    c.ids.clear();
    c.results.clear();
  }
  static void add(call& c, request& r) { c.ids.push_back(r.id); }
  static void take(call& c, std::size_t i, request& r) noexcept {
    r.result = c.results[i] ? read_result::ok : read_result::not_found;
    if (c.results[i]) r.found = std::move(*c.results[i]);
  }
};

struct list_traits {
  using call = list_call;
  using request = list_request;
  static constexpr auto verb = &store::list;
  static constexpr std::size_t most = 1;
  static void clear(call& c) noexcept { c.results.clear(); }
  static void add(call& c, request& r) {
    c.state = r.state;
    c.after = r.after;
    c.limit = r.limit;
  }
  static void take(call& c, std::size_t, request& r) noexcept {
    r.result = read_result::ok;
    r.found = std::move(c.results);
  }
};

struct finish_traits {
  using call = finish_call;
  using request = finish_request;
  static constexpr auto verb = &store::finish;
  static constexpr std::size_t most = limits.elements;
  static void clear(call& c) noexcept {
    c.items.clear();
    c.results.clear();
    c.pending.clear();
  }
  static void add(call& c, request& r) { c.items.push_back(r.what); }
  static void take(call& c, std::size_t i, request& r) noexcept { r.result = c.results[i]; }
  static bool has_answer(const call& c, std::size_t i) noexcept { return c.results[i] != finish_result::unknown; }
};

}  // namespace tickwheel::durable::detail
