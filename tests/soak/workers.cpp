#include "workers.hpp"

#include <thread>

namespace soak {

using namespace std::chrono_literals;
using tickwheel::remote_timer;

namespace {

constexpr nanoseconds longest_delay = 500ms;
// The time after which a timer that was not cancelled must have fired, and one that was cancelled may be used again.
constexpr nanoseconds surely_over = 20s;
constexpr nanoseconds quarantine = 1s;

}  // namespace

void answer_jobs(shared& with, bounded_queue<job>& jobs, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  while (const auto taken = jobs.pop()) {
    if (random() % 8 == 0) continue;
    const auto after = random() % 4 == 0 ? std::chrono::milliseconds{random() % 60} : 0ms;
    const job what = *taken;
    const auto answer = [what]() noexcept { what.from->answer(what.id); };
    if (what.from->remote().post(after, answer) == UV_EAGAIN) ++with.refused;
  }
}

remote_arms::remote_arms(shared& with, std::vector<tickwheel::remote_handle> loops, std::size_t at_once,
                         std::uint64_t seed)
    : with_{with}, loops_{std::move(loops)}, operations_(at_once), random_{seed} {
  for (operation& o : operations_) o.with = &with;
}

void remote_arms::run() {
  for (std::size_t next = 0; !stopping_;) {
    const time_point now = clock::now();
    for (int i = 0; i < 16; ++i) step(operations_[next++ % operations_.size()], now);
    std::this_thread::sleep_for(1ms);
  }
}

void remote_arms::operation::fire() noexcept {
  const auto now = clock::now();
  if (now < due) with->wrong.report("a timer of another thread fired %.3f ms early", in_ms(due - now));
  ++with->fired;
  if (fired.fetch_add(1) != 0) with->wrong.report("a timer of another thread fired twice");
}

void remote_arms::step(operation& o, time_point now) {
  using state = operation::state;
  switch (o.is) {
    case state::unused:
      return arm(o, now);
    case state::armed:
      if (o.fired != 0) {
        o.timer.release();
        o.is = state::unused;
      } else if (random_() % 3 == 0) {
        cancel(o, now);
      } else if (now > o.due + surely_over) {
        with_.wrong.report("a timer of another thread was lost: %.0f ms over its time", in_ms(now - o.due));
        o.is = state::cancelled;
      }
      return;
    case state::cancelled:
      if (o.fired != 0) {
        with_.wrong.report("a timer of another thread fired that was cancelled");
        o.fired = 0;
      }
      if (now > o.look_again) o.is = state::unused;
      return;
    case state::too_late:
      if (o.fired != 0)
        o.is = state::unused;
      else if (now > o.look_again)
        with_.wrong.report("a timer of another thread was too late to be cancelled, and did not fire");
      return;
  }
}

void remote_arms::arm(operation& o, time_point now) {
  o.fired = 0;
  const nanoseconds delay{random_() % static_cast<std::uint64_t>(longest_delay.count())};
  o.due = now + delay;  // now was before
  const auto& loop = loops_[random_() % loops_.size()];
  const int error = loop.arm(
      delay, [&o]() noexcept { o.fire(); }, o.timer);
  if (error == 0) {
    ++with_.armed;
    o.is = operation::state::armed;
  } else if (error == UV_EAGAIN) {
    ++with_.refused;
  } else {
    with_.wrong.report("a timer of another thread was not accepted: %s", uv_strerror(error));
  }
}

void remote_arms::cancel(operation& o, time_point now) {
  switch (o.timer.cancel()) {
    case remote_timer::outcome::cancelled:
      ++with_.cancelled;
      o.is = operation::state::cancelled;
      o.look_again = std::max(now, o.due) + quarantine;
      break;
    case remote_timer::outcome::too_late:
      o.is = operation::state::too_late;
      o.look_again = now + surely_over;
      break;
    case remote_timer::outcome::closed:
      with_.wrong.report("a timer of another thread was closed before its service");
      break;
  }
}

void remote_arms::end() noexcept {
  for (operation& o : operations_) {
    if (o.is == operation::state::unused) continue;
    const bool fired = o.fired != 0;
    const auto outcome = o.timer.cancel();
    const bool as_said = o.is == operation::state::cancelled  ? !fired && outcome == remote_timer::outcome::cancelled
                         : o.is == operation::state::too_late ? fired
                         : fired                              ? outcome == remote_timer::outcome::too_late
                                                              : outcome == remote_timer::outcome::closed;
    if (!as_said) with_.wrong.report("a timer of another thread has not ended as it was told, or not once");
    o.timer = {};
  }
}

}  // namespace soak
