// A node of the chaos harness: a `commanded_scheduler` on a PostgreSQL database.
//
//   chaos_node CONNINFO NAME [producer=1] [attempts=N] [poll=MS] [lease=MS] [timeout=MS] [loaded=N] [running=N]
//
// Besides the lines of `journal.hpp` it writes
//
//   SEQ WALL log TEXT        of the store, for people
//   SEQ WALL stalled MS      its loop did not turn for so long
#include "../crash/child/commanded_scheduler.hpp"
#include "../crash/child/wall_clock.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <uv.h>

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace durable = tickwheel::durable;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t stall_ms = 150;
constexpr std::size_t longest_text = 300;

// The loop's own look at how long it did not turn.
struct stall_watch {
  uv_timer_t timer{};
  std::uint64_t last = uv_hrtime();

  explicit stall_watch(uv_loop_t& loop) {
    (void)uv_timer_init(&loop, &timer);
    timer.data = this;
    (void)uv_timer_start(
        &timer, [](uv_timer_t* t) { static_cast<stall_watch*>(t->data)->look(); }, 10, 10);
  }
  void look() {
    const std::uint64_t now = uv_hrtime();
    const std::uint64_t gap = (now - std::exchange(last, now)) / 1'000'000;
    if (gap >= stall_ms) crash::say("stalled %" PRIu64, gap);
  }
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) crash::fail("usage", "chaos_node CONNINFO NAME [OPTION=NUMBER...]");
  durable::scheduler_options options;
  options.name = words[2];
  options.lease = 1s;
  options.poll = 50ms;
  options.window = 200ms;
  options.max_running = 64;
  options.max_attempts = 4;
  options.request_timeout = 2s;
  options.retry = {.base = 2ms, .cap = 20ms};
  bool is_producer = false;
  for (int i = 3; i < count; ++i) {
    std::string_view value = words[i];
    const auto name = crash::next_word(value, '=');
    const auto n = crash::number_of<std::int64_t>(value);
    if (name == "producer")
      is_producer = n != 0;
    else if (!crash::set_option(options, name, n))
      crash::fail("unknown option", words[i]);
  }
  durable::postgres_options store;
  store.partitions = 16;
  store.connect_timeout = 3s;
  store.answer_timeout = 2s;
  store.repeat_timeout = 1s;
  store.log = [](std::string_view line) {
    std::string text{line.substr(0, longest_text)};
    std::replace(text.begin(), text.end(), '\n', ' ');
    crash::say("log %s", text.c_str());
  };
  tickwheel::event_loop loop;
  if (const int error = loop.open()) crash::fail("loop", uv_strerror(error));
  stall_watch watch{loop.uv()};
  crash::commanded_scheduler node{loop, durable::postgres_store(words[1], store), options, !is_producer};
  node.open();
  node.listen();
  loop.run();
  crash::fail("the loop has ended", "nothing holds it");
}
