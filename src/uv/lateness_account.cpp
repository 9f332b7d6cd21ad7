#include <tickwheel/uv/detail/lateness_account.hpp>

#include <algorithm>

namespace tickwheel::detail {

void lateness_account::interrupted(clock::time_point begin, clock::time_point end) noexcept {
  if (end - begin >= slow_) remember({begin, end, nullptr});
}

std::chrono::nanoseconds lateness_account::overlap(const span& s, clock::time_point begin,
                                                   clock::time_point end) noexcept {
  return std::max<std::chrono::nanoseconds>(std::min(s.end, end) - std::max(s.begin, begin), {});
}

std::chrono::nanoseconds lateness_account::taken_by(handler_id who, clock::time_point begin,
                                                    clock::time_point end) const noexcept {
  std::chrono::nanoseconds sum{};
  for (const span& s : slow_spans_)
    if (s.by == who) sum += overlap(s, begin, end);
  return sum;
}

slow_handler lateness_account::slowest_since(clock::time_point begin) const noexcept {
  slow_handler slowest{};
  for (const span& s : slow_spans_) {
    if (s.by == nullptr) continue;
    const std::chrono::nanoseconds together = taken_by(s.by, begin, clock::time_point::max());
    if (together > slowest.took) slowest = {s.by, together};
  }
  return slowest;
}

expiry_report lateness_account::report() const noexcept {
  expiry_report r;
  r.due = due_;
  r.ran = began_;
  const clock::time_point ran = std::max(began_, due_);
  const clock::time_point woken = std::clamp(chain_polled_, due_, ran);
  const clock::time_point judged = std::clamp(chain_began_, woken, ran);
  r.rounding = rounding_;
  r.poll = woken - due_;
  r.stall = judged - woken;

  // The loop's own callbacks are charged with the time before the pass, minus the handlers of the previous pass if that one ended
  // in the same iteration.
  std::chrono::nanoseconds by_loop = r.stall;
  for (const span& s : slow_spans_) {
    const std::chrono::nanoseconds before = overlap(s, woken, judged), after = overlap(s, judged, ran);
    r.stall += after;
    if (s.by == nullptr) {
      by_loop += after;
      continue;
    }
    by_loop -= before;
    const std::chrono::nanoseconds together = taken_by(s.by, woken, ran);
    if (together > r.by_for) {
      r.by = stalled_by::handler;
      r.by_for = together;
      r.handler = s.by;
    }
  }
  if (by_loop > r.by_for) {
    r.by = stalled_by::loop_callbacks;
    r.by_for = by_loop;
    r.handler = nullptr;
  }
  r.late = r.rounding + (ran - due_);
  r.carried = r.late - r.rounding - r.poll - r.stall;
  return r;
}

}  // namespace tickwheel::detail
