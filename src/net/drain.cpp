#include <tickwheel/net/drain.hpp>

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <algorithm>

namespace tickwheel {

namespace {

// How many members a pass visits. Closing a socket takes some microseconds, so these take about as long as a pass may
// (service_options::time_per_pass).
constexpr std::size_t members_a_pass = 256;

// Returns a random number in [0, 1).
double uniform(detail::splitmix64& random) noexcept { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

}  // namespace

drain_group::~drain_group() {
  if (destroyed_ != nullptr) *destroyed_ = true;
  for (members* list : {&untold_, &waiting_, &stopped_}) list->clear_and_dispose([](member* m) { m->group = nullptr; });
}

int drain_group::start(const drain_limits& limits) noexcept {
  if (limits.problem() != nullptr) return UV_EINVAL;
  if (draining()) return UV_EALREADY;
  if (!service().is_open()) return refuse_when_closed();
  const clock::time_point now = service().read_clock();
  if (const int error = timer::arm_verdict_at(now)) return error;
  forget_told();  // of a drain that ended when its service was closed
  limits_ = limits;
  hard_stop_at_ = detail::add_saturating(now, limits.hard_stop);
  stops_ = 0;
  ++starts_;
  random_ = detail::splitmix64{limits.seed};
  return 0;
}

bool drain_group::cancel() noexcept {
  forget_told();
  return timer::cancel();
}

void drain_group::forget_told() noexcept {
  for (members* list : {&waiting_, &stopped_}) {
    while (!list->empty()) {
      list->front().last_pass = passes_;
      move(list->front(), place::untold);
    }
  }
}

void drain_group::join(member& m) noexcept {
  untold_.push_back(m);
  m.last_pass = last_pass_before_poll();
  schedule();
}

void drain_group::leave(member& m) noexcept {
  members& list = list_of(m.in);
  list.erase(list.iterator_to(m));
  m.group = nullptr;
  if (size() == 0) schedule();
}

// Requires: it is draining, and `m` was not told to stop. After the hard stop a member that was told does not move, nor one that is
// to be told. Otherwise a member that serves a request each time, or in each iteration, would never be stopped.
void drain_group::became_idle(member& m) noexcept {
  if ((m.was_told || m.in == place::untold) && service().now() >= hard_stop_at_) return;
  m.last_pass = last_pass_before_poll();
  move(m, place::untold);
  schedule();
}

void drain_group::visit(wheel_entry& entry) noexcept {
  auto& self = static_cast<drain_group&>(timer::from(entry));
  if (self.size() == 0) {
    self.done_(self);
    return;
  }
  // It is armed before handlers are called, because a handler may destroy the service. Only an armed timer notices that.
  self.timer::arm_again_at(clock::time_point::max());
  self.tell(self.service().judged_at());
}

// Calls at most as many handlers as one pass may, and arms the timer for the next pass.
void drain_group::tell(clock::time_point now) noexcept {
  bool destroyed = false;
  destroyed_ = &destroyed;
  ++passes_;  // a member that joins or becomes idle from here on is told in the next pass
  const std::uint64_t starts = starts_;
  for (std::size_t looked_at = 0; looked_at < members_a_pass; ++looked_at) {
    drain_call call = drain_call::idle;
    member* next = nullptr;
    const bool is_untold = !untold_.empty() && untold_.front().last_pass != passes_;
    // Stops have half of the pass. Otherwise many members that end a request before each pass would keep all from being stopped.
    if (is_untold && (looked_at < members_a_pass / 2 || !stop_is_due(now))) {
      next = &untold_.front();
      move(*next, place::waiting);
      next->last_pass = passes_;
      next->was_told = !next->is_busy;
      if (next->is_busy) continue;
    } else if (stop_is_due(now)) {
      next = &waiting_.front();
      move(*next, place::stopped);
      plan_stop();
      call = drain_call::hard_stop;
    } else {
      break;
    }
    next->call(*next, call);  // may destroy the member, this drain, its service, or any other object
    if (destroyed) return;
    if (!draining() || starts_ != starts) break;
  }
  destroyed_ = nullptr;
  schedule();
}

// At the hard stop, also fixes how many members share `spread`. A member that was told in this pass has time until the next one.
bool drain_group::stop_is_due(clock::time_point now) noexcept {
  if (waiting_.empty() || now < hard_stop_at_) return false;
  if (waiting_.front().was_told && waiting_.front().last_pass == passes_) return false;
  if (stops_ == 0) {
    to_be_stopped_ = waiting_.size() + untold_.size();
    plan_stop();
  }
  return next_stop_ <= now;
}

// Each waiting member has an equal share of `spread`, and is stopped at a random time in it. A member that begins to wait later
// is stopped at the end of `spread`.
void drain_group::plan_stop() noexcept {
  using std::chrono::nanoseconds;
  nanoseconds after = limits_.spread;
  if (stops_ < to_be_stopped_) {
    const double share = static_cast<double>(limits_.spread.count()) / static_cast<double>(to_be_stopped_);
    const double at = (static_cast<double>(stops_) + uniform(random_)) * share;
    after = std::min(after, detail::to_nanoseconds(std::chrono::duration<double, std::nano>{at}));
  }
  next_stop_ = detail::add_saturating(hard_stop_at_, after);
  ++stops_;
}

bool drain_group::has_work_now() const noexcept { return !untold_.empty() || size() == 0; }

clock::time_point drain_group::next_work() const noexcept {
  if (has_work_now()) return service().now();
  if (waiting_.empty()) return clock::time_point::max();  // members that were told to stop have not left yet
  return stops_ == 0 ? hard_stop_at_ : next_stop_;
}

// A timer that is due is not moved: `now` may be later than the time of the next pass. If members joined in each iteration, no pass
// would ever come. A pass that tells members plans the next one at its end.
void drain_group::schedule() noexcept {
  if (is_telling() || !draining()) return;
  const clock::time_point next = next_work();
  if (!has_work_now() || next < timer::deadline()) timer::arm_again_at(next);
}

// If the timer is due, the next pass may be as of a time before now. Then the loop has not looked for a request of a new member.
std::uint32_t drain_group::last_pass_before_poll() const noexcept {
  return passes_ + (draining() && timer::deadline() <= service().now() ? 1U : 0U);
}

void drain_group::move(member& m, place to) noexcept {
  members& from = list_of(m.in);
  list_of(to).splice(list_of(to).end(), from, from.iterator_to(m));
  m.in = to;
}

drain_group::members& drain_group::list_of(place p) noexcept {
  switch (p) {
    case place::untold:
      return untold_;
    case place::waiting:
      return waiting_;
    default:
      return stopped_;
  }
}

}  // namespace tickwheel
