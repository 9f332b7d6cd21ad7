// The work of join: it waits for a name that another session has.
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
#include "burial.hpp"
#include "works.hpp"

#include <uv.h>

#include <string>
#include <utility>

namespace tickwheel::durable::postgres {

namespace {

using namespace std::chrono_literals;

// from one look at the session that has the name to the next
constexpr std::chrono::nanoseconds look_pause = 20ms;

/// Ends the former sessions of this store, takes the name, and registers the session.
///
/// Another session may have the name. A notification asks its store for a beat. If one comes, the node lives. Otherwise it is
/// buried as soon as any node may do that: it was silent for half of its lease, which has run out, or for all of it.
class join_work final : public work {
 public:
  join_work(join_call& c, node_state& of) : work{store_verb::join, &c}, state_{of} {
    c.error = 0;
    c.session = 0;
  }

 private:
  enum class step { former, find, ask, bury, number, join };

  void on_ask(transaction& to) override {
    const join_call& c = as<join_call>();
    const auto session = static_cast<std::int64_t>(session_);
    if (step_ == step::former) {
      if (state_.own_sessions.empty())
        step_ = step::find;
      else if (!burial_.is_active())
        burial_.begin_own(state_.own_sessions.back());
    }
    switch (step_) {
      case step::former:
      case step::bury:
        return burial_.ask(to);
      case step::find:
        to.add(statement::find_name).add_text(c.name);
        return;
      case step::ask:
        to.add(statement::ask_node).add_text(std::to_string(holder_));
        return;
      case step::number:
        (void)to.add(statement::new_session);
        return;
      case step::join: {
        to.add(statement::join).add(session).add_text(c.name).add(span_of(c.lease)).add(span_of(c.keep_finished));
        to.add(statement::keep_meta).add(span_of(c.keep_finished));
        parameters::array pids{element_type::bigint, state_.backends.size()};
        parameters::array started{element_type::bigint, state_.backends.size()};
        for (const auto& [pid, start] : state_.backends) {
          pids.add(pid);
          started.add(start);
        }
        to.add(statement::register_links).add(session).add(std::move(pids)).add(std::move(started));
        return;
      }
    }
  }

  void on_committed(const transaction& of) override {
    const rows answered = of.of(0);
    switch (step_) {
      case step::former:
        if (!goes_on_burying(of)) return;
        state_.own_sessions.pop_back();
        return;
      case step::bury:
        if (goes_on_burying(of)) step_ = step::find;
        return;
      case step::find:
        return on_found(answered);
      case step::ask:
        step_ = step::find;
        return pause(look_pause);
      case step::number:
        session_ = static_cast<session_number>(answered.integer(0, 0));
        // known from now on: the answer of the next step may be lost
        state_.own_sessions.push_back(session_);
        step_ = step::join;
        return;
      case step::join:
        return on_joined(answered);
    }
  }

  // Returns true if the burial has ended, and the join goes on.
  bool goes_on_burying(const transaction& of) {
    if (!burial_.take(of)) {
      if (burial_.must_wait()) pause(look_pause / 4);
      return false;
    }
    const bool was_locked = std::exchange(burial_, {}).is_locked();
    if (was_locked) {
      state_.problem = burial::locked;
      end(store_status::unavailable);
    }
    return !was_locked;
  }

  void on_found(const rows& found) {
    if (found.is_null(0, 1)) {
      step_ = session_ != 0 ? step::join : step::number;
      return;
    }
    const auto session = static_cast<session_number>(found.integer(0, 1));
    const auto beat = static_cast<std::uint64_t>(found.integer(0, 2));
    if (session == holder_ && beat != beat_) {
      as<join_call>().error = UV_EEXIST;
      as<join_call>().now = from_database(found.integer(0, 0));
      state_.problem = "another living node has the name " + as<join_call>().name;
      return end();
    }
    if (session != holder_) since_ = now();
    holder_ = session;
    beat_ = beat;
    const bool has_run_out = found.integer(0, 3) <= found.integer(0, 0);
    const std::chrono::nanoseconds silent = now() - since_, lease{found.integer(0, 4)};
    if ((has_run_out && silent >= lease / 2) || silent >= lease) {
      burial_.begin(session, beat);
      step_ = step::bury;
    } else if (has_run_out) {
      pause(std::min(look_pause, lease / 2 - silent));
    } else {
      step_ = step::ask;
    }
  }

  void on_joined(const rows& joined) {
    if (joined.is_null(0, 1)) {  // another node was faster
      step_ = step::find;
      return;
    }
    auto& c = as<join_call>();
    c.now = from_database(joined.integer(0, 0));
    c.session = state_.session = session_;
    c.partitions = state_.partitions;
    state_.owned.clear();
    state_.recovers_all = true;
    end();
  }

  node_state& state_;
  step step_ = step::former;
  burial burial_;
  session_number session_ = 0;
  session_number holder_ = 0;  // of the name
  std::uint64_t beat_ = 0;
  steady_time since_{};  // when this beat was first seen
};

}  // namespace

std::unique_ptr<work> make_join(join_call& c, node_state& of) { return std::make_unique<join_work>(c, of); }

}  // namespace tickwheel::durable::postgres
