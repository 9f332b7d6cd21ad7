// The clock, and the faults of the database.
#include "world.hpp"

#include <algorithm>
#include <utility>

namespace durable_model {

void world::advance(nanos by) {
  const nanos end = facts_.now + by;
  database_->advance(time_, by);
  // the turns that follow those that slow callables have ended
  while (std::exchange(has_blocked_, false)) database_->advance(time_, ms);
  facts_.is_behind = answers_wait;
  refresh();
  behind_ = facts_.now - end;
}

void world::move_time() {
  const nanos poll = options_.poll.count();
  const nanos lease = options_.lease.count();
  const nanos nudge = decide_.pick<nanos>({-ms, -1, 0, 1, ms});
  nanos by = 0;
  switch (decide_.below(16)) {
    case 0:
      by = 0;
      break;
    case 1:
      by = poll + nudge;
      break;
    case 2:
      by = options_.window.count() + nudge;
      break;
    case 3:
      by = lease / 4 + nudge;
      break;
    case 4:
      by = decide_.one_in(8) ? lease * decide_.pick<nanos>({1, 2, 3}) : poll * 2;
      break;
    case 5:
      by = options_.request_timeout.count() + nudge;
      break;
    case 6:
      by = options_.keep_finished.count() + nudge;
      break;
    case 7:
    case 8:
      by = 100 * us;
      break;
    case 9:
      by = poll * 10;
      break;
    default:
      by = static_cast<nanos>(decide_.up_to(static_cast<std::uint64_t>(poll)));
  }
  by = std::clamp<nanos>(by, 0, poll * (is_brief_ ? 10 : decide_.one_in(50) ? 400 : 40));
  note("advance %lld", static_cast<long long>(by));
  advance(by);
}

// The loop stands still, as while its process is stopped.
void world::stall() {
  const nanos lease = options_.lease.count();
  const nanos by = decide_.pick<nanos>({ms, options_.poll.count(), lease / 10 * 8 - 1, lease / 10 * 8, lease,
                                        options_.request_timeout.count(), options_.window.count()});
  if (by > options_.poll.count() * 100) return;
  note("stall %lld", static_cast<long long>(by));
  longest_delay_ = std::max(longest_delay_, by);
  if (decide_.one_in(2))
    time_.oversleep(duration(by));
  else
    time_.block(duration(by));
  refresh();
  advance(2 * ms);
}

void world::disturb() {
  if (faults_ == nullptr || !may_disturb_) return;
  durable::memory_database& d = *faults_;
  const auto v = static_cast<store_verb>(decide_.below(durable::store_verbs));
  const auto any_verb = [&] {
    return decide_.one_in(2) ? v
                             : decide_.pick({store_verb::put, store_verb::cancel, store_verb::begin, store_verb::finish,
                                             store_verb::get, store_verb::recover});
  };
  node& n = any_node();
  switch (decide_.below(16)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const store_verb failing = any_verb();
      const auto fault = static_cast<memory_fault>(decide_.below(5));
      const std::size_t calls = 1 + decide_.below(2);
      note("fail_next %s %d %zu", to_string(failing), static_cast<int>(fault), calls);
      return d.fail_next(failing, fault, calls);
    }
    case 4:
    case 5: {
      const store_verb slow = any_verb();
      const nanos delay = decide_.pick<nanos>({0, 0, 100 * us, 2 * ms, options_.request_timeout.count() + ms,
                                               options_.poll.count(), options_.lease.count() / 2});
      note("carry_out_after %s %lld", to_string(slow), static_cast<long long>(delay));
      longest_delay_ = std::max(longest_delay_, delay);
      return d.carry_out_after(slow, duration(delay));
    }
    case 6:
    case 7: {
      const store_verb slow = any_verb();
      const nanos delay = decide_.pick<nanos>({0, 0, 100 * us, 2 * ms, options_.request_timeout.count() + ms,
                                               options_.poll.count(), options_.lease.count() / 2});
      note("answer_after %s %lld", to_string(slow), static_cast<long long>(delay));
      longest_delay_ = std::max(longest_delay_, delay);
      return d.answer_after(slow, duration(delay));
    }
    case 8:
    case 9:
      note("answer_lost");
      return d.answer_lost();
    case 10:
      note("outage");
      return d.outage(true);
    case 11:
    case 12:
      note("outage over");
      for (const node& each : nodes_) d.outage(each.name, false);
      return d.outage(false);
    case 13:
      note("outage of %s", n.name.c_str());
      return d.outage(n.name, true);
    case 14: {
      const auto session = d.session_of(n.name);
      if (session == 0) return;
      note("bury %s", n.name.c_str());
      if (n.member >= 0) facts_.members[static_cast<std::size_t>(n.member)].gone_at = never;
      d.bury(session);
      return;
    }
    default: {
      for (std::size_t all = 0; all != durable::store_verbs; ++all) {
        d.carry_out_after(static_cast<store_verb>(all), 0ns);
        d.answer_after(static_cast<store_verb>(all), 0ns);
      }
      note("no delays");
    }
  }
}

}  // namespace durable_model
