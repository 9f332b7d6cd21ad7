// A plugin with a timer: named_handler_test loads and unloads it.
#include <tickwheel/uv/timer.hpp>

#include <chrono>
#include <optional>

namespace plugin {

struct session {
  explicit session(tickwheel::timer_service& timers) : idle{timers, *this} {}
  void on_idle() noexcept { timed_out(context); }

  tickwheel::member_timer<&session::on_idle> idle;
  void (*timed_out)(void*) = nullptr;
  void* context = nullptr;
};

std::optional<session> only;

}  // namespace plugin

extern "C" {

// `expired(context)` is called after 1 ms. Returns 0 or a UV_ code.
__attribute__((visibility("default"))) int plugin_begin(tickwheel::timer_service& timers, void (*expired)(void*),
                                                        void* context) {
  plugin::only.emplace(timers);
  plugin::only->timed_out = expired;
  plugin::only->context = context;
  return plugin::only->idle.arm(std::chrono::milliseconds{1});
}

__attribute__((visibility("default"))) void plugin_end() { plugin::only.reset(); }
}
