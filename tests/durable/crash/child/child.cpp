// The child of the crash harness: a `commanded_scheduler` on a SQLite file.
//
//   crash_child FILE [ahead=NS] [attempts=N] [poll=MS] [lease=MS] [timeout=MS] [loaded=N] [running=N]
//                    [crash=N] [errors=N] [seed=N]    see power_loss.hpp
//                    [busy=1]                         tries to open FILE, and exits: with 0 if another process has it, else with 1
//
// It obeys some more commands:
//
//   clock NS          the wall clock runs so far ahead of the true one
//   calm              writes and syncs do not fail any more
//   limit BYTES       no file may grow beyond this size; -1: no limit
//   touch             opens and closes FILE, as another part of the program might: SQLite's locks on it are then gone
#include "commanded_scheduler.hpp"
#include "power_loss.hpp"
#include "wall_clock.hpp"

#include <tickwheel/durable/sqlite.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <string>
#include <string_view>

namespace durable = tickwheel::durable;
using namespace std::chrono_literals;
using crash::fail;
using crash::next_word;
using crash::number_of;
using crash::say;

namespace {

struct settings {
  std::string file;
  std::int64_t ahead = 0;
  durable::scheduler_options options;
  bool expects_busy = false;
  bool loses_power = false;
  crash::power_loss_options power;
};

class child final : public crash::commanded_scheduler {
 public:
  child(tickwheel::event_loop& loop, const settings& s)
      : commanded_scheduler{loop, durable::sqlite_store(s.file), s.options},
        file_{s.file},
        expects_busy_{s.expects_busy} {}

 private:
  void on_ready(int result) override {
    if (expects_busy_) _exit(result == UV_EBUSY ? 0 : 1);
    if (result == 0) crash::allow_errors(true);
  }

  bool obey_also(std::string_view what, std::string_view rest) override {
    if (what == "clock")
      set_clock(number_of<std::int64_t>(rest));
    else if (what == "calm")
      crash::allow_errors(false);
    else if (what == "limit")
      limit(number_of<std::int64_t>(rest));
    else if (what == "touch")
      touch();
    else
      return false;
    return true;
  }

  static void set_clock(std::int64_t ahead) {
    const crash::clock_step step = crash::set_wall_clock(ahead);
    say("clock %" PRId64 " %" PRId64, step.latest_before, step.earliest_after);
  }

  static void limit(std::int64_t bytes) {
    rlimit of_files{};
    int error = getrlimit(RLIMIT_FSIZE, &of_files);
    of_files.rlim_cur = bytes < 0 ? of_files.rlim_max : static_cast<rlim_t>(bytes);
    if (error == 0) error = setrlimit(RLIMIT_FSIZE, &of_files);
    if (error != 0) fail("setrlimit", std::strerror(errno));
  }

  void touch() const {
    const int file = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) ::close(file);
  }

  const std::string file_;
  const bool expects_busy_;
};

settings read_settings(int count, char** words) {
  if (count < 2) fail("usage", "crash_child FILE [NAME=NUMBER...]");
  settings s;
  s.file = words[1];
  s.options.poll = 20ms;
  s.options.window = 100ms;
  s.options.max_running = 64;
  s.options.max_attempts = 4;
  s.options.retry = {.base = 2ms, .cap = 20ms};
  for (int i = 2; i < count; ++i) {
    std::string_view value = words[i];
    const auto name = next_word(value, '=');
    const auto n = number_of<std::int64_t>(value);
    s.loses_power = s.loses_power || name == "crash" || name == "errors" || name == "seed";
    if (name == "ahead")
      s.ahead = n;
    else if (name == "crash")
      s.power.at = static_cast<std::uint64_t>(n);
    else if (name == "errors")
      s.power.errors = static_cast<std::uint64_t>(n);
    else if (name == "seed")
      s.power.seed = static_cast<std::uint64_t>(n);
    else if (name == "busy")
      s.expects_busy = n != 0;
    else if (!crash::set_option(s.options, name, n))
      fail("unknown setting", words[i]);
  }
  s.options.window = std::max<std::chrono::nanoseconds>(s.options.window, 2 * s.options.poll);
  return s;
}

}  // namespace

int main(int count, char** words) {
  const settings s = read_settings(count, words);
  (void)crash::set_wall_clock(s.ahead);
  (void)signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit fails
  if (s.loses_power && !crash::install_power_loss(s.power)) fail("power_loss", "it cannot be installed");
  tickwheel::event_loop loop;
  if (const int error = loop.open()) fail("loop", uv_strerror(error));
  child c{loop, s};
  c.open();
  c.listen();
  loop.run();
  fail("the loop has ended", "nothing holds it");
}
