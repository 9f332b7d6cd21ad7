// libuv's own timers, each in a block that outlives its use by a connection.
//
// A uv_timer_t cannot be destroyed and made anew in its place: libuv keeps it linked until uv_close has called back, one iteration
// later. So a connection that gets a new timer must leave the old one behind. The cheapest permitted way is a free list of handles,
// to which the close callback returns them. That favours libuv: a handle was used a millisecond ago and is in the cache, and there is
// no allocator.
#pragma once

#include "../../support/connection.hpp"
#include "simulated_loop.hpp"

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace tickwheel::bench {

class libuv_renewed_subject {
  struct timer_pointer {
    uv_timer_t* handle = nullptr;
  };

 public:
  using connection = bench::connection<timer_pointer>;
  static constexpr std::string_view name = "libuv";

  explicit libuv_renewed_subject(std::size_t n) : connections_{n} {
    for (const auto& c : connections_) open(*c);
  }
  ~libuv_renewed_subject() {
    for (const auto& c : connections_) close(*c);
    loop_.reset();  // while the handles are still there
  }
  libuv_renewed_subject(const libuv_renewed_subject&) = delete;
  libuv_renewed_subject& operator=(const libuv_renewed_subject&) = delete;

  connection& operator[](std::size_t i) const noexcept { return connections_[i]; }

  void arm(connection& c, std::chrono::microseconds delay) noexcept {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(delay).count();
    uv_timer_start(c.handle, &run, static_cast<std::uint64_t>(ms), 0);
  }

  bool cancel(connection& c) noexcept {
    const bool was_armed = active(c);
    uv_timer_stop(c.handle);
    return was_armed;
  }

  void renew(connection& c) {
    close(c);
    open(c);
  }

  void advance_to(std::chrono::nanoseconds now) noexcept { loop_->advance_to(now); }
  void jump_to(std::chrono::nanoseconds now) noexcept { loop_->jump_to(now); }
  void run_out(std::chrono::nanoseconds end) noexcept { loop_->run_out(end); }
  std::size_t step_out() noexcept { return loop_->run_out(); }

  std::optional<std::chrono::nanoseconds> due(const connection& c) const noexcept {
    if (!active(c)) return {};
    const auto ms = static_cast<std::int64_t>(uv_now(&loop_->get()) + uv_timer_get_due_in(c.handle));
    return simulated_loop::time_of(std::chrono::milliseconds{ms});
  }

 private:
  struct handle : uv_timer_t {
    libuv_renewed_subject* owner;
  };

  static uv_handle_t* base(uv_timer_t* t) noexcept { return reinterpret_cast<uv_handle_t*>(t); }
  static bool active(const connection& c) noexcept { return uv_is_active(base(c.handle)); }
  static void run(uv_timer_t* t) noexcept { expired.add(static_cast<connection*>(t->data)->id); }

  void open(connection& c) {
    if (free_.empty()) {
      handles_.push_back(std::make_unique<handle>());
      handles_.back()->owner = this;
      free_.push_back(handles_.back().get());
    }
    c.handle = free_.back();
    free_.pop_back();
    uv_timer_init(&loop_->get(), c.handle);
    c.handle->data = &c;
  }

  void close(connection& c) noexcept {
    uv_close(base(c.handle), [](uv_handle_t* closed) {
      auto* const h = static_cast<handle*>(reinterpret_cast<uv_timer_t*>(closed));
      h->owner->free_.push_back(h);
    });
  }

  std::vector<std::unique_ptr<handle>> handles_;
  std::vector<uv_timer_t*> free_;
  std::unique_ptr<simulated_loop> loop_ = std::make_unique<simulated_loop>();
  connections<connection> connections_;
};

}  // namespace tickwheel::bench
