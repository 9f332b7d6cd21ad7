// SIGINT and SIGTERM, which ask a server to stop.
#pragma once

#include <uv.h>

#include <csignal>
#include <utility>

template <auto Stop>
class stop_signals;

/// Calls `Stop` of its owner, on the loop's thread, when one of them arrives.
template <class Owner, void (Owner::*Stop)() noexcept>
class stop_signals<Stop> {
 public:
  explicit stop_signals(Owner& self) noexcept : self_{self} {}
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  /// Returns 0 or a UV_ code. The signals hold the loop until `close`, which must be called in either case.
  [[nodiscard]] int start(uv_loop_t& loop) noexcept {
    for (auto [handle, number] : {std::pair{&interrupt_, SIGINT}, std::pair{&terminate_, SIGTERM}}) {
      if (const int error = uv_signal_init(&loop, handle)) return error;
      handle->data = this;
      const auto on_signal = [](uv_signal_t* h, int which) {
        auto& self = *static_cast<stop_signals*>(h->data);
        self.last_ = which;
        (self.self_.*Stop)();
      };
      if (const int error = uv_signal_start(handle, on_signal, number)) return error;
    }
    return 0;
  }

  /// Returns the signal that arrived last; 0: none has.
  int last() const noexcept { return last_; }

  /// Idempotent. A further signal then has its default effect: it ends a drain that hangs.
  void close() noexcept {
    for (uv_signal_t* const signal : {&interrupt_, &terminate_}) {
      auto* const handle = reinterpret_cast<uv_handle_t*>(signal);
      if (handle->data != nullptr && !uv_is_closing(handle)) uv_close(handle, nullptr);
    }
  }

 private:
  Owner& self_;
  int last_ = 0;
  uv_signal_t interrupt_{}, terminate_{};  // their data is set once they are the loop's
};
