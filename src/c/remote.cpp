// Each handle of the C interface contains the C++ handle of the same size. An empty handle is null.
#include "service_block.hpp"
#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/remote.hpp>

#include <new>
#include <type_traits>
#include <utility>

namespace tickwheel::c {

namespace {

template <class Cpp, class C>
void make(C& at, Cpp&& from) noexcept {
  static_assert(sizeof(Cpp) <= sizeof(C), "tickwheel.h sets aside too little");
  static_assert(alignof(Cpp) <= alignof(C), "tickwheel.h sets aside what is not aligned");
  ::new (static_cast<void*>(&at)) Cpp{std::forward<Cpp>(from)};
}
template <class Cpp, class C>
Cpp& cpp(C* at) noexcept {
  return *std::launder(reinterpret_cast<Cpp*>(at));
}

// The callback comes first: reports identify the call by it.
struct caller {
  tw_remote_cb cb;
  void* arg;
  void operator()() const noexcept { cb(arg); }
};
static_assert(std::is_standard_layout_v<caller>, "its address is that of `cb`");

}  // namespace

}  // namespace tickwheel::c

using tickwheel::remote_handle;
using tickwheel::remote_hold;
using tickwheel::remote_timer;
using namespace tickwheel::c;  // NOLINT(google-build-using-namespace): the C interface is in the global namespace

static_assert(static_cast<int>(remote_timer::outcome::cancelled) == TW_CANCELLED);
static_assert(static_cast<int>(remote_timer::outcome::too_late) == TW_TOO_LATE);
static_assert(static_cast<int>(remote_timer::outcome::closed) == TW_CLOSED);

int tw_remote_init(tw_service_t* service, tw_remote_t* remote) {
  if (remote == nullptr) return UV_EINVAL;
  make(*remote, remote_handle{});
  if (service == nullptr) return UV_EINVAL;
  service_block* const of = service_block::find_open(*service);
  if (of == nullptr) return UV_ECANCELED;
  cpp<remote_handle>(remote) = of->timers().remote();
  return 0;
}

int tw_remote_copy(const tw_remote_t* from, tw_remote_t* to) {
  if (from == nullptr || to == nullptr) return UV_EINVAL;
  make(*to, remote_handle{cpp<const remote_handle>(from)});
  return 0;
}

void tw_remote_release(tw_remote_t* remote) {
  if (remote != nullptr) cpp<remote_handle>(remote) = {};
}

int tw_remote_post(const tw_remote_t* remote, tw_remote_cb cb, void* arg, uint64_t timeout) {
  return tw_remote_post_ns(remote, cb, arg, from_ms(timeout));
}
int tw_remote_post_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg, uint64_t timeout) {
  if (remote == nullptr || cb == nullptr) return UV_EINVAL;
  return cpp<const remote_handle>(remote).post(to_chrono(timeout), caller{cb, arg});
}

int tw_remote_arm(const tw_remote_t* remote, tw_remote_cb cb, void* arg, uint64_t timeout, tw_remote_timer_t* handle) {
  return tw_remote_arm_ns(remote, cb, arg, from_ms(timeout), handle);
}
int tw_remote_arm_ns(const tw_remote_t* remote, tw_remote_cb cb, void* arg, uint64_t timeout,
                     tw_remote_timer_t* handle) {
  if (handle == nullptr) return UV_EINVAL;
  remote_timer made;
  const int error = remote == nullptr || cb == nullptr
                        ? UV_EINVAL
                        : cpp<const remote_handle>(remote).arm(to_chrono(timeout), caller{cb, arg}, made);
  make(*handle, std::move(made));
  return error;
}

int tw_remote_timer_cancel(tw_remote_timer_t* handle) {
  return handle == nullptr ? UV_EINVAL : static_cast<int>(cpp<remote_timer>(handle).cancel());
}

void tw_remote_timer_release(tw_remote_timer_t* handle) {
  if (handle != nullptr) cpp<remote_timer>(handle).release();
}

int tw_hold_init(tw_service_t* service, tw_hold_t* hold) {
  if (hold == nullptr) return UV_EINVAL;
  make(*hold, remote_hold{});
  if (service == nullptr) return UV_EINVAL;
  service_block* const of = service_block::find_open(*service);
  if (of == nullptr) return UV_ECANCELED;
  of->check_thread();
  cpp<remote_hold>(hold) = of->timers().hold();
  return 0;
}

void tw_hold_release(tw_hold_t* hold) {
  if (hold != nullptr) cpp<remote_hold>(hold).release();
}
