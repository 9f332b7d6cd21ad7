#include <tickwheel/uv/detail/post_delivery.hpp>

#include "binding_watch.hpp"
#include "probes.hpp"

#include <tickwheel/uv/detail/post_queue.hpp>
#include <tickwheel/uv/detail/posted_operation.hpp>
#include <tickwheel/uv/timer.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace tickwheel::detail {

namespace {

constexpr std::size_t operate_at = offsetof(posted_operation, operate);
constexpr std::size_t callable_at = offsetof(posted_operation, callable);

// Returns the pointer to a function that is `at` bytes from the beginning. It is only compared.
expiry_report::handler_id handler_of(const posted_operation& posted, std::size_t at) noexcept {
  expiry_report::handler_id id = nullptr;
  std::memcpy(&id, reinterpret_cast<const std::byte*>(&posted) + at, sizeof id);
  return id;
}

}  // namespace

[[gnu::cold]] post_delivery::post_delivery(timer_service& service, armed_timers& timers, handler_log& log) noexcept
    : service_{service}, timers_{timers}, log_{log}, handler_at_{operate_at} {}

[[gnu::cold]] void post_delivery::identify_by_target() noexcept { handler_at_ = callable_at; }

expiry_report::handler_id post_delivery::handler_of(timer& t) noexcept {
  return detail::handler_of(posted_operation::of(t), operate_at);
}
expiry_report::handler_id post_delivery::target_of(timer& t) noexcept {
  return detail::handler_of(posted_operation::of(t), callable_at);
}

clock::time_point post_delivery::due_of(timer& t) noexcept { return posted_operation::of(t).due; }

[[gnu::cold]] post_delivery::~post_delivery() {
  if (queue_ != nullptr) queue_->release();
}

[[gnu::cold]] void post_delivery::open(post_queue& from) noexcept {
  if (queue_ != nullptr) queue_->release();
  queue_ = &from;
  batch_end_ = nullptr;
  has_holds_ = false;
  expired_but_cancelled_ = ran_ = withdrawn_ = cancelled_ = 0;
}

// First the inbox and the operations that were taken. Then each operation in the wheel is there and nowhere else.
[[gnu::cold]] void post_delivery::close(ended_operations& ended) noexcept {
  taken_.append(queue_->close());
  while (inbox_link* link = taken_.pop()) end(posted_operation::of(*link), ended);
}

[[gnu::cold]] void post_delivery::forget(timer& t, ended_operations& ended) noexcept {
  if (owns(t)) end(posted_operation::of(t), ended);
}

void post_delivery::count(service_stats& stats) const noexcept {
  stats.fired -= expired_but_cancelled_;
  stats.cancelled += expired_but_cancelled_;
  stats.remote_accepted = queue_->accepted();
  stats.remote_refused = queue_->refused();
  stats.remote_ran = ran_;
  stats.remote_withdrawn = withdrawn_;
  stats.remote_cancelled = cancelled_;
  stats.remote_queued = queue_->queued();
}

void post_delivery::take() noexcept {
  // in this order: if no hold is left, `take_all` takes everything that was posted before the last one was released
  if (has_holds_) has_holds_ = queue_->has_holds();
  taken_.append(queue_->take_all());
}

std::size_t post_delivery::deliver(std::size_t visits, clock::time_point as_of, clock::time_point stamp,
                                   const binding_watch& binding) noexcept {
  const std::size_t handler_at = handler_at_;  // read once
  std::size_t made = 0;
  while (made != visits) {
    inbox_link* const link = taken_.pop();
    if (link == nullptr) break;
    ++made;
    if (link == batch_end_) batch_end_ = nullptr;
    if (taken_.front() != nullptr) __builtin_prefetch(posted_operation::of(*taken_.front()).waiting, 1);
    posted_operation& posted = posted_operation::of(*link);
    if (deliver(posted, as_of, stamp, handler_at) && (binding.ended() || log_.must_look_at_clock())) break;
  }
  return made;
}

// Returns true if it has called the callable or its destructor, which may do anything.
inline bool post_delivery::deliver(posted_operation& posted, clock::time_point as_of, clock::time_point stamp,
                                   std::size_t handler_at) noexcept {
  if (posted.delivered) return settle_notice(posted);
  posted.delivered = true;
  queue_->count_delivered();
  // a delayed one is a timer, and waits for input as any other timer does
  if (posted.due > as_of) {
    if (!posted.change_by_loop(operation_state::queued, operation_state::armed)) return withdraw(posted);
    arm(posted);
    return false;
  }
  if (!posted.change_by_loop(operation_state::queued, operation_state::ran)) return withdraw(posted);
  // a time before the clock's epoch has passed as well
  const bool at_once = posted.due == clock::time_point::min();
  log_.begin(detail::handler_of(posted, handler_at), at_once ? stamp : std::max(posted.due, clock::time_point{}), {});
  if (probes::traced()) [[unlikely]] {
    log_.settle();
    probes::fire(nullptr, log_.lateness().handler(), log_.lateness().report());
  }
  run(posted);
  return true;
}

// Another thread may already push the link as a notice: the next pass takes it.
void post_delivery::arm(posted_operation& posted) noexcept {
  ++armed_;
  timer& wait = *::new (static_cast<void*>(posted.waiting)) timer{service_, &fire, timer::of_remote{}};
  timers_.entries().arm(wait.entry(), timers_.ticks().ceil(posted.due));
  if (probes::traced()) [[unlikely]]
    probes::arm(&wait, detail::handler_of(posted, handler_at_), timers_.ticks().begin_of(wait.entry().deadline()),
                nullptr);
}

void post_delivery::fire(wheel_entry& entry) noexcept {
  timer& wait = timer::from(entry);
  post_delivery& self = wait.service().dispatcher_.posts();
  posted_operation& posted = posted_operation::of(wait);
  self.disarm(posted);
  if (posted.change_by_loop(operation_state::armed, operation_state::ran))
    self.run(posted);
  else
    self.abandon(posted);
}

// It was cancelled, and its notice is on the way, or is about to be pushed. Our reference is left to the notice. The wheel has said
// that a handler begins, and none does.
[[gnu::cold]] void post_delivery::abandon(posted_operation& posted) noexcept {
  log_.take_back();
  ++expired_but_cancelled_;
  ++withdrawn_;
  queue_->count_ended();
  if (!posted.owns) {
    posted.abandon();
    return;
  }
  // the callable's destructor may close the service, which settles the notice: one more reference keeps the memory until it
  // returns
  posted.retain();
  posted.abandon();
  posted.destroy_callable();
  posted.release();
}

// It leaves the wheel and is armed no more. A thread that drops the last reference has only memory to free.
void post_delivery::disarm(posted_operation& posted) noexcept {
  --armed_;
  timer& wait = posted.wait();
  timers_.entries().cancel(wait.entry());
  wait.~timer();
}

// Returns as `deliver`.
bool post_delivery::settle_notice(posted_operation& posted) noexcept {
  if (posted.is_abandoned()) {
    posted.release();
    return false;
  }
  disarm(posted);
  return withdraw(posted);
}

// It was cancelled, and is in no wheel. Returns as `deliver`. The handler that ran before is not charged with the destructor's
// time.
[[gnu::noinline]] bool post_delivery::withdraw(posted_operation& posted) noexcept {
  ++withdrawn_;
  queue_->count_ended();
  const bool owns = posted.owns;
  if (owns) {
    log_.end();
    posted.destroy_callable();
  }
  posted.release();
  return owns;
}

// The callable and its destructor may close or destroy the service. Afterwards only the operation is touched, which nobody else
// frees.
void post_delivery::run(posted_operation& posted) noexcept {
  ++ran_;
  queue_->count_ended();
  posted.run();
  posted.release();
}

// Ends and counts an operation that has not run, wherever it was.
[[gnu::cold]] void post_delivery::end(posted_operation& posted, ended_operations& ended) noexcept {
  if (posted.delivered) {
    if (posted.is_abandoned()) {
      posted.release();  // counted before
      return;
    }
    disarm(posted);
  }
  const operation_state from = posted.delivered ? operation_state::armed : operation_state::queued;
  if (posted.change_by_loop(from, operation_state::closed))
    ++cancelled_;
  else
    ++withdrawn_;
  if (posted.owns)
    ended.add(posted);
  else
    posted.release();
}

// A notice that is refused may still write the operation's link, so the list has a link of its own.
[[gnu::cold]] void ended_operations::add(posted_operation& ended) noexcept {
  ended.begin_list();
  (front_ == nullptr ? front_ : back_->next_ended()) = &ended;
  back_ = &ended;
}

[[gnu::cold]] ended_operations::~ended_operations() {
  while (posted_operation* const ended = front_) {
    front_ = ended->next_ended();
    ended->destroy_callable();
    ended->release();
  }
}

}  // namespace tickwheel::detail
