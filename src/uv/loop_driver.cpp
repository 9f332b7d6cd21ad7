#include "loop_driver.hpp"

#include "uv_timer_wakeup.hpp"

#ifdef TICKWHEEL_HAS_TIMERFD  // src/meson.build knows where
#include "timerfd_wakeup.hpp"
#endif

#include <tickwheel/core/detail/nanoseconds.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#ifndef _WIN32
#include <poll.h>
#endif
#ifdef __linux__
#include <sys/epoll.h>
#endif

namespace tickwheel {

namespace {

// Longest delay of an undisturbed poll: libuv's millisecond, the kernel's, and five thousandths of a wait of one second. Longer
// waits end early, see uv_timer_wakeup.hpp.
constexpr std::chrono::milliseconds poll_granularity{7};

#ifdef __linux__
// libuv 1.49.0 and 1.49.1 watch the descriptor of uv_async_t by its edges. Versions after 1.52 were not looked at.
constexpr bool may_watch_edges(unsigned version) noexcept {
  return (version >= 0x013100 && version <= 0x013101) || version >= 0x013500;
}
static_assert(may_watch_edges(0x013100) && !may_watch_edges(0x013102));
static_assert(!may_watch_edges(0x0134ff) && may_watch_edges(0x013500));

// Returns true if no descriptor of an epoll set is ready. epoll_wait takes a third of the time that poll() takes. But it would take
// an edge, and libuv would not hear of it.
bool nothing_is_ready(int set) noexcept {
  static const bool may_take_edges = may_watch_edges(uv_version());
  if (may_take_edges) {
    pollfd all{.fd = set, .events = POLLIN, .revents = 0};
    return ::poll(&all, 1, 0) == 0;
  }
  epoll_event first;
  return ::epoll_wait(set, &first, 1, 0) == 0;
}
#elif !defined(_WIN32)
bool nothing_is_ready(int backend) noexcept {
  pollfd all{.fd = backend, .events = POLLIN, .revents = 0};
  return ::poll(&all, 1, 0) == 0;
}
#endif

uv_handle_t* base(void* handle) noexcept { return static_cast<uv_handle_t*>(handle); }

// Returns true if a queue of libuv's is empty. Its first member is the next element, or the queue itself.
template <class Queue>
bool is_empty(const Queue& queue) noexcept {
  const void* next = nullptr;
  std::memcpy(&next, &queue, sizeof next);
  return next == &queue;
}

// Returns true if uv_loop_close has ended the loop. It then has no descriptor, and must not be given handles. On Windows no loop
// has a descriptor, so this is unknown there.
bool has_ended([[maybe_unused]] const uv_loop_t& loop) noexcept {
#ifdef _WIN32
  return false;
#else
  return uv_backend_fd(&loop) < 0;
#endif
}

}  // namespace

// Reads the steady clock last. If the process is suspended between the two reads, stalls are undercounted from then on. In the
// other order, all waiting would count as a stall. So a reading that took long is repeated.
[[gnu::cold]] clock_pair clock_pair::read() noexcept {
  constexpr std::uint64_t undisturbed_ns = 100'000;
  for (int attempts = 10;; --attempts) {
    const std::uint64_t before = uv_hrtime();
    const clock::time_point time = clock::now();
    if (attempts == 0 || uv_hrtime() - before < undisturbed_ns)
      return {before / 1'000'000, time - std::chrono::nanoseconds{before % 1'000'000}};
  }
}

template <loop_wakeup Wakeup>
[[gnu::cold]] int loop_driver<Wakeup>::make(uv_loop_t& loop, driver*& made) noexcept {
  if (has_ended(loop)) return UV_EINVAL;
  auto* const self = new (std::nothrow) loop_driver{loop};
  if (self == nullptr) return UV_ENOMEM;
  // first the steps that may need a descriptor: on an error nothing is linked to the loop yet
  int error = self->wakeup_.acquire();
  if (error == 0) error = uv_async_init(&loop, &self->async_, [](uv_async_t* h) { of(h).on_async(); });
  if (error != 0) {
    self->wakeup_.release();
    delete self;
    return error;
  }
  error = self->link();
  if (error != 0) {
    self->wakeup_.release();
    self->close(base(&self->async_));  // it is linked: the block frees itself in a later loop iteration
    return error;
  }
  made = self;
  return 0;
}

template <loop_wakeup Wakeup>
[[gnu::cold]] loop_driver<Wakeup>::loop_driver(uv_loop_t& loop) noexcept
    : loop_{loop}, left_{clock::now()}, opened_{clock_pair::read()}, polled_{left_} {}

template <loop_wakeup Wakeup>
[[gnu::cold]] int loop_driver<Wakeup>::link() noexcept {
  const auto wake = [](auto* h, auto...) { of(h).on_wakeup_handle(); };
  if (const int error = wakeup_.link(loop_, wake)) return error;
  // these calls cannot fail
  uv_prepare_init(&loop_, &prepare_);
  uv_check_init(&loop_, &check_);
  uv_idle_init(&loop_, &idle_);
  for (unsigned i = 0; i < handles; ++i) {
    handle(i)->data = this;
    uv_unref(handle(i));
  }
  // libuv runs prepare handles that were started first last, so ours sees what the user's later ones did
  turns_early_ = any_prepare_is_active(loop_);
  uv_prepare_start(&prepare_, [](uv_prepare_t* h) { of(h).on_prepare(); });
  uv_check_start(&check_, [](uv_check_t* h) { of(h).on_check(); });
  return 0;
}

template <loop_wakeup Wakeup>
[[gnu::cold]] bool loop_driver<Wakeup>::any_prepare_is_active(uv_loop_t& loop) noexcept {
  bool found = false;
  const auto look = [](uv_handle_t* h, void* arg) {
    if (uv_handle_get_type(h) == UV_PREPARE && uv_is_active(h) != 0) *static_cast<bool*>(arg) = true;
  };
  uv_walk(&loop, look, &found);
  return found;
}

template <loop_wakeup Wakeup>
[[gnu::cold]] uv_handle_t* loop_driver<Wakeup>::handle(unsigned i) noexcept {
  void* const all[handles] = {wakeup_.handle(), &prepare_, &check_, &idle_, &async_};
  return base(all[i]);
}

template <loop_wakeup Wakeup>
bool loop_driver<Wakeup>::owns(const uv_handle_t* h) const noexcept {
  const void* const p = h;
  return p == wakeup_.handle() || p == &prepare_ || p == &check_ || p == &idle_ || p == &async_ || p == &sentinel_;
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::hold_loop(bool alive) noexcept {
  // The prepare handle is always active. So is the uv_async_t, but other threads read its flags.
  if (alive) {
    uv_ref(base(&prepare_));
    if (only_closes_) held_again_ = std::min(held_again_, clock::now());
  } else {
    uv_unref(base(&prepare_));
  }
}

// Any thread. The caller makes sure that this does not overlap with our own uv_close. A handle that the user closed is not sent,
// because libuv does not check that, and its loop may be gone. This test is only safe if the handle was closed before the call,
// and the documentation tells the user so.
template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::request_pass() noexcept {
  if (!uv_is_closing(base(&async_))) uv_async_send(&async_);
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::on_async() noexcept {
  if (bound() == nullptr) return;
  bound()->on_pass_requested();
  begin_pass();
}

// While a pass is due no wakeup is set: at the end of the pass the client asks again.
template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::wake_at_as_of(clock::time_point now, clock::time_point when) noexcept {
  wake_ = when;
  if (!pass_due_ && !wakeup_.set(when, now)) begin_pass();
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::cancel_wakeup() noexcept {
  wake_ = clock::time_point::max();
  wakeup_.cancel();
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::on_wakeup_handle() noexcept {
  if (!wakeup_.came() || bound() == nullptr) return;
  woken_ = wakeup_.is_last() && bound()->due(wake_);
  if (woken_)
    let_poll_wait(false);  // also between two calls of uv_run, for a caller that waits by uv_backend_timeout
  else if (bound()->on_wakeup(clock::now()))
    begin_pass();
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::begin_pass() noexcept {
  pass_due_ = true;
  let_poll_wait(false);
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::let_poll_wait(bool wait) noexcept {
  // uv_idle_start does not refuse a closing handle, which must not become active again
  if (uv_is_closing(base(&idle_))) return;
  if (wait)
    uv_idle_stop(&idle_);
  else
    uv_idle_start(&idle_, [](uv_idle_t*) {});
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::on_prepare() noexcept {
  if (bound() == nullptr) return;
  wakeup_.before_poll();
  const clock::time_point now = clock::now();
  if (away_) resume(now);
  const bool due = bound()->on_iteration(now);
  polled_ = now;
  polling_ = true;
  if (woken_) {
    woken_ = false;
    if (bound()->on_wakeup(now)) pass_due_ = true;
    if (!pass_due_) let_poll_wait(true);
  } else if (!pass_due_ && due) {
    begin_pass();
  }
  if (pass_due_) {
    pass_stamp_ = now;
    stamped_ = true;
  } else if (wake_ != clock::time_point::max() && !wakeup_.correct(wake_, now)) {
    begin_pass();
  }
  wait_until_ = pass_due_ ? now : wake_;
}

// uv_run usually renews libuv's time when it is called. It does not with 1.45 and later in UV_RUN_ONCE and UV_RUN_NOWAIT. Then
// callbacks before this one count as time outside the loop. If a close callback arms a timer and then blocks, the time from the
// arm on counts as the loop's.
template <loop_wakeup Wakeup>
[[gnu::cold]] void loop_driver<Wakeup>::resume(clock::time_point now) noexcept {
  const clock::time_point renewed = only_closes_ ? held_again_ : latest_at(uv_now(&loop_));
  const clock::time_point entered = renewed > left_ && renewed < now ? renewed : now;
  bound()->on_resumed(left_, entered);
  polled_ = entered;
  away_ = only_closes_ = false;
}

template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::on_check() noexcept {
  polled_ = poll_ended_at();
  polling_ = false;
  if (bound() != nullptr && !pass_due_ && wakeup_.has_expired()) judge_at_once();
  // without a stamp of this iteration, the pass became due after the poll began, and waits for the next poll
  if (bound() != nullptr && stamped_) {
    stamped_ = false;
    pass_due_ = false;
    bound()->pass(pass_stamp_);  // may unbind us; the block lives until a later loop iteration
    if (!pass_due_) let_poll_wait(true);
  }
  away_ = loop_.active_handles == 0 && loop_.active_reqs.count == 0;  // uv_run returns after the close callbacks
  if (away_) {
    left_ = clock::now();
    only_closes_ = uv_loop_alive(&loop_) != 0;
    held_again_ = clock::time_point::max();
  }
}

// The poll waited for the wakeup, and the rest of this iteration becomes an iteration of our own. That spares the loop one. If
// nothing is ready to be read, and libuv owes no callback, then another poll would find nothing that came before this look.
template <loop_wakeup Wakeup>
void loop_driver<Wakeup>::judge_at_once() noexcept {
  const clock::time_point now = clock::now();
  if (now < wake_ || !libuv_owes_no_callback() || !bound()->one_poll_is_enough(now)) return;
  wakeup_.take();
  woken_ = false;
  if (!bound()->on_wakeup(now)) {
    if (!pass_due_) let_poll_wait(true);
    return;
  }
  if (left_unread() != unread::nothing) return begin_pass();
  pass_stamp_ = now;
  bound()->on_iteration(now);
  polled_ = now;
  stamped_ = true;
}

// Callbacks of this iteration may have begun to read a descriptor, which libuv polls only from its next poll on, or may have made
// a request fail, which libuv tells only in its next iteration.
template <loop_wakeup Wakeup>
bool loop_driver<Wakeup>::libuv_owes_no_callback() const noexcept {
#ifdef _WIN32
  return false;
#else
  return is_empty(loop_.watcher_queue) && is_empty(loop_.pending_queue);
#endif
}

// A timerfd that has expired stays readable until it is set again. That is no input.
template <loop_wakeup Wakeup>
driver::unread loop_driver<Wakeup>::left_unread() noexcept {
#ifdef _WIN32
  return unread::unknown;
#else
  wakeup_.cancel();
  return nothing_is_ready(uv_backend_fd(&loop_)) ? unread::nothing : unread::something;
#endif
}

// During the poll's callbacks we do not know its end yet, but libuv's time has moved by then. If a poll took longer than its
// timeout, it did not wait for I/O: the process was stopped, or had no processor.
template <loop_wakeup Wakeup>
clock::time_point loop_driver<Wakeup>::poll_ended_at() const noexcept {
  if (!polling_) return polled_;
  const clock::time_point latest = detail::add_saturating(wait_until_, poll_granularity);
  return std::max(polled_, std::min(latest, latest_at(uv_now(&loop_))));
}

// Returns the steady time at which libuv's clock read `loop_ms`, rounded up. So a stall is undercounted by up to a millisecond,
// and waiting for I/O never counts as a stall.
template <loop_wakeup Wakeup>
clock::time_point loop_driver<Wakeup>::latest_at(std::uint64_t loop_ms) const noexcept {
  const auto since = static_cast<std::int64_t>(loop_ms - opened_.libuv_ms) + 1;
  return opened_.time + std::chrono::milliseconds{since};
}

// A post that was not delivered exists in the child and in the parent. The child's is due in the next prepare phase. Only the
// parent's descriptor knows whether the async handle was sent. libuv 1.44 keeps its own flag for that in the child, and would
// never send the handle there again.
template <loop_wakeup Wakeup>
[[gnu::cold]] void loop_driver<Wakeup>::after_fork() noexcept {
  polled_ = clock::now();
  wakeup_.after_fork();
#ifndef _WIN32
  async_.pending = 0;
#endif
}

template <loop_wakeup Wakeup>
[[gnu::cold]] void loop_driver<Wakeup>::on_unbind() noexcept {
  closing_ = 1;  // this call itself
  wakeup_.before_close();
  for (unsigned i = 0; i < handles; ++i) {
    // a handle that the user already closed in a walk over the loop must not be closed twice
    if (uv_is_closing(handle(i)))
      closed_by_user_ = true;
    else
      close(handle(i));
  }
  wakeup_.release();
  // The loop is never walked here: the caller may be inside a walk of its own, and a nested walk does not see all handles.
  if (closed_by_user_ && !has_ended(loop_)) {
    uv_idle_init(&loop_, &sentinel_);
    close(base(&sentinel_));
  }
  if (--closing_ == 0) free_when_closed();
}

template <loop_wakeup Wakeup>
[[gnu::cold]] void loop_driver<Wakeup>::close(uv_handle_t* h) noexcept {
  ++closing_;
  h->data = this;
  uv_close(h, [](uv_handle_t* closed) {
    loop_driver& self = of(closed);
    if (--self.closing_ == 0) self.free_when_closed();
  });
}

// All our close callbacks have run. Handles that the user closed called the user's callbacks, so the loop is searched for them: a
// handle that it still lists is not closed yet. In that case a sentinel is closed. Its callback comes one iteration later and
// searches again.
template <loop_wakeup Wakeup>
[[gnu::cold]] void loop_driver<Wakeup>::free_when_closed() noexcept {
  if (closed_by_user_ && listed_by_loop()) {
    uv_idle_init(&loop_, &sentinel_);
    close(base(&sentinel_));
    return;
  }
  delete this;
}

template <loop_wakeup Wakeup>
[[gnu::cold]] bool loop_driver<Wakeup>::listed_by_loop() noexcept {
  if (has_ended(loop_)) return false;
  struct search {
    const loop_driver& self;
    bool found;
  } search{*this, false};
  uv_walk(
      &loop_,
      [](uv_handle_t* h, void* arg) {
        auto& in = *static_cast<struct search*>(arg);
        in.found |= in.self.owns(h);
      },
      &search);
  return search.found;
}

int make_loop_driver(uv_loop_t& loop, wake_by wakeup, driver*& made) noexcept {
  switch (wakeup) {
    case wake_by::uv_timer:
      return loop_driver<uv_timer_wakeup>::make(loop, made);
    case wake_by::timerfd:
#ifdef TICKWHEEL_HAS_TIMERFD
      return loop_driver<timerfd_wakeup>::make(loop, made);
#else
      return UV_ENOTSUP;
#endif
  }
  return UV_EINVAL;
}

}  // namespace tickwheel
