// The child of the crash harness: a scheduler on a SQLite file that does as the parent says, and writes a line for each event. It may be
// killed at any moment.
//
//   crash_child FILE [ahead=NS] [attempts=N] [poll=MS] [lease=MS] [timeout=MS] [loaded=N] [running=N]
//                    [crash=N] [errors=N] [seed=N]    see power_loss.hpp
//                    [busy=1]                         tries to open FILE, and exits: with 0 if another process has it, else with 1
//
// Commands come as lines on standard input. `journal.hpp` describes the lines that it writes.
//
//   schedule N ID DUE PERIOD keep|replace PAYLOAD     the payload is N/PLAN/ANYTHING
//   cancel|revive|get N ID
//   finish N ID TOKEN
//   clock NS          the wall clock runs so far ahead of the true one
//   left              writes how many tasks are pending and running
//   list              writes all tasks
//   reopen            closes the scheduler and opens it again
//   drain             drains, and exits
//   calm              writes and syncs do not fail any more
//   limit BYTES       no file may grow beyond this size; -1: no limit
//   touch             opens and closes FILE, as another part of the program might: SQLite's locks on it are then gone
//   mark              writes a line
//
// A plan has a letter for each attempt, and the last one for all others: (d)one at once, done (D)elayed by some milliseconds, done
// after (l)ong, (f)ail, (r)etry some times, (b)ury, dropped with (n)o answer, (a)bort of the process.
#include "power_loss.hpp"
#include "wall_clock.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/sqlite.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace durable = tickwheel::durable;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t longest_line = 512;
constexpr std::array states{durable::task_state::pending, durable::task_state::running, durable::task_state::dead,
                            durable::task_state::finished, durable::task_state::cancelled};
constexpr std::size_t list_page = 1000;

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "crash_child: %s: %s\n", what, why);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): nothing else exits
}

std::uint64_t last_number = 0;  // of a line

// Writes a line with its number and the time. One write of at most 512 bytes to a pipe is never torn.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) {
  std::array<char, longest_line + 1> line{};
  int length = std::snprintf(line.data(), line.size(), "%" PRIu64 " %" PRId64 " ", ++last_number, crash::wall_now());
  std::va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(line.data() + length, line.size() - static_cast<std::size_t>(length), format, arguments);
  va_end(arguments);
  if (static_cast<std::size_t>(length) >= longest_line) fail("a line is too long", line.data());
  line.at(static_cast<std::size_t>(length)) = '\n';
  const auto size = static_cast<std::size_t>(length) + 1;
  if (write(STDOUT_FILENO, line.data(), size) != static_cast<ssize_t>(size)) fail("write", std::strerror(errno));
}

std::int64_t in_ns(durable::clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

template <class Number>
Number number_of(std::string_view word) {
  Number n{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size()) fail("not a number", std::string{word}.c_str());
  return n;
}

std::string_view next_word(std::string_view& rest, char end = ' ') {
  const auto length = std::min(rest.find(end), rest.size());
  const auto word = rest.substr(0, length);
  rest.remove_prefix(std::min(length + 1, rest.size()));
  return word;
}

struct settings {
  std::string file;
  std::int64_t ahead = 0;
  durable::scheduler_options options;
  bool expects_busy = false;
  bool loses_power = false;
  crash::power_loss_options power;
};

class child {
 public:
  child(tickwheel::event_loop& loop, const settings& s)
      : loop_{loop},
        scheduler_{loop.timers(), durable::sqlite_store(s.file), s.options},
        file_{s.file},
        expects_busy_{s.expects_busy} {
    scheduler_.on_due([this](durable::execution run) noexcept { on_due(std::move(run)); });
    if (const int error = uv_timer_init(&loop.uv(), &tick_)) fail("uv_timer_init", uv_strerror(error));
    tick_.data = this;
    (void)uv_timer_start(
        &tick_, [](uv_timer_t* t) { static_cast<child*>(t->data)->end_delayed(); }, 1, 1);
    if (const int error = uv_pipe_init(&loop.uv(), &commands_, 0)) fail("uv_pipe_init", uv_strerror(error));
    commands_.data = this;
    if (const int error = uv_pipe_open(&commands_, STDIN_FILENO)) fail("uv_pipe_open", uv_strerror(error));
  }

  void open() {
    const int error = scheduler_.open([this](int result) noexcept {
      if (expects_busy_) _exit(result == UV_EBUSY ? 0 : 1);
      say("ready %d", result);
      if (result == 0) crash::allow_errors(true);
      if (result != 0 && result != UV_ECANCELED) fail("open", std::string{scheduler_.problem()}.c_str());
    });
    if (error != 0) fail("open", uv_strerror(error));
  }

  void listen() {
    const auto allocate = [](uv_handle_t* h, std::size_t, uv_buf_t* into) {
      auto& self = *static_cast<child*>(h->data);
      *into = uv_buf_init(self.bytes_.data(), static_cast<unsigned>(self.bytes_.size()));
    };
    const auto on_read = [](uv_stream_t* s, ssize_t count, const uv_buf_t* from) {
      if (count < 0) _exit(0);  // the parent is gone
      static_cast<child*>(s->data)->take({from->base, static_cast<std::size_t>(count)});
    };
    const int error = uv_read_start(reinterpret_cast<uv_stream_t*>(&commands_), allocate, on_read);
    if (error != 0) fail("uv_read_start", uv_strerror(error));
  }

 private:
  void take(std::string_view more) {
    input_ += more;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = input_.find('\n', begin)) != std::string::npos; begin = end + 1)
      obey(std::string_view{input_}.substr(begin, end - begin));
    input_.erase(0, begin);
  }

  void obey(std::string_view line) {
    const auto what = next_word(line);
    if (what == "clock") return set_clock(number_of<std::int64_t>(line));
    if (what == "left") return count_left();
    if (what == "list") return list_all(0, {});
    if (what == "reopen") return reopen();
    if (what == "drain") return drain();
    if (what == "calm") return crash::allow_errors(false);
    if (what == "limit") return limit(number_of<std::int64_t>(line));
    if (what == "touch") return touch();
    if (what == "mark") return say("marked");
    const auto number = number_of<unsigned>(next_word(line));
    const std::string id{next_word(line)};
    say("asked %u", number);
    int error = 0;
    if (what == "schedule") {
      error = schedule(number, id, line);
    } else if (what == "cancel") {
      error = scheduler_.cancel(
          id, [number](durable::cancel_result r) noexcept { say("answered %u %s", number, to_string(r)); });
    } else if (what == "revive") {
      error = scheduler_.revive(
          id, [number](durable::revive_result r) noexcept { say("answered %u %s", number, to_string(r)); });
    } else if (what == "get") {
      error = scheduler_.get(id, [number](durable::read_result r, durable::task_info of) noexcept {
        if (r != durable::read_result::ok) return say("answered %u %s", number, to_string(r));
        say("answered %u ok %s %u %u %d", number, to_string(of.state), of.attempts, of.lost, of.cancelling ? 1 : 0);
      });
    } else if (what == "finish") {
      error = scheduler_.finish(id, number_of<std::uint64_t>(line), [number](durable::finish_result r) noexcept {
        say("answered %u %s", number, to_string(r));
      });
    } else {
      fail("unknown command", std::string{what}.c_str());
    }
    if (error != 0) say("rejected %u %d", number, error);
  }

  int schedule(unsigned number, const std::string& id, std::string_view rest) {
    durable::task what;
    what.id = id;
    what.due = durable::clock::time_point{std::chrono::duration_cast<durable::clock::duration>(
        std::chrono::nanoseconds{number_of<std::int64_t>(next_word(rest))})};
    what.period = std::chrono::nanoseconds{number_of<std::int64_t>(next_word(rest))};
    const auto conflict = next_word(rest) == "keep" ? durable::on_conflict::keep : durable::on_conflict::replace;
    what.payload = rest;
    return scheduler_.schedule(
        std::move(what), [number](durable::schedule_result r) noexcept { say("answered %u %s", number, to_string(r)); },
        conflict);
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

  void count_left() {
    const auto running = [this](durable::read_result r, std::vector<durable::task_info> tasks) noexcept {
      say("left %zu %zu", pending_, r == durable::read_result::ok ? tasks.size() : 1);
    };
    const auto pending = [this, running](durable::read_result r, std::vector<durable::task_info> tasks) noexcept {
      pending_ = r == durable::read_result::ok ? tasks.size() : 1;
      if (const int error = scheduler_.list(durable::task_state::running, {}, list_page, running))
        fail("list", uv_strerror(error));
    };
    if (const int error = scheduler_.list(durable::task_state::pending, {}, list_page, pending))
      fail("list", uv_strerror(error));
  }

  // Lists the states from `which` on.
  void list_all(std::size_t which, std::string after) {
    if (which == states.size()) return say("listed");
    const auto state = states.at(which);
    auto print = [this, which, after = std::string{after}](durable::read_result r,
                                                           std::vector<durable::task_info> tasks) noexcept {
      if (r != durable::read_result::ok) return list_all(which, after);
      for (const auto& t : tasks)
        say("row %s %s %u %u %d", to_string(t.state), t.what.id.c_str(), t.attempts, t.lost, t.cancelling ? 1 : 0);
      tasks.size() == list_page ? list_all(which, tasks.back().what.id) : list_all(which + 1, {});
    };
    if (const int error = scheduler_.list(state, after, list_page, std::move(print))) fail("list", uv_strerror(error));
  }

  void reopen() {
    scheduler_.close();
    delayed_.clear();  // inert
    say("closed");
    open();
  }

  void drain() {
    const int error = scheduler_.drain([this]() noexcept {
      say("drained");
      scheduler_.close();
      _exit(0);
    });
    if (error != 0 && error != UV_EALREADY) fail("drain", uv_strerror(error));
  }

  void on_due(durable::execution run) {
    std::string_view rest = run.payload();
    const auto number = next_word(rest, '/');
    say("entered %.*s %" PRIu64 " %u %" PRId64 " %.*s", static_cast<int>(run.id().size()), run.id().data(), run.token(),
        run.attempt(), in_ns(run.due()), static_cast<int>(number.size()), number.data());
    const auto plan = next_word(rest, '/');
    if (plan.empty()) fail("a task has no plan", std::string{run.payload()}.c_str());
    const char letter = plan[std::min<std::size_t>(run.attempt(), plan.size()) - 1];
    // of the token, so that another start of this task does otherwise
    const std::uint64_t random = run.token() * 0x9E3779B97F4A7C15 >> 32;
    switch (letter) {
      case 'd':
        return end(std::move(run), 'd');
      case 'D':
        delayed_.emplace(uv_now(&loop_.uv()) + 1 + random % 30, std::pair{std::move(run), 'd'});
        return;
      case 'l':
        delayed_.emplace(uv_now(&loop_.uv()) + 100 + random % 200, std::pair{std::move(run), 'd'});
        return;
      case 'r':
        return end(std::move(run), random % 4 == 0 ? 'd' : 'r');
      case 'a':
        std::abort();
      default:
        return end(std::move(run), letter);
    }
  }

  static void end(durable::execution run, char letter) {
    const std::string id{run.id()};
    const std::uint64_t token = run.token();
    auto confirm = [id = std::string{id}, token](durable::finish_result r) noexcept {
      say("ended %s %" PRIu64 " %s", id.c_str(), token, to_string(r));
    };
    const auto announce = [&](const char* how) { say("ending %s %" PRIu64 " %s", id.c_str(), token, how); };
    switch (letter) {
      case 'd':
        announce("done");
        return run.done(std::move(confirm));
      case 'r':
        announce("again");
        return run.retry_after(std::chrono::milliseconds{token % 20}, std::move(confirm));
      case 'f':
        announce("fail");
        return run.fail("planned", std::move(confirm));
      case 'b':
        announce("bury");
        return run.bury("planned", std::move(confirm));
      case 'n':
        announce("fail");
        return say("ended %s %" PRIu64 " unknown", id.c_str(), token);  // nobody tells
      default:
        fail("unknown plan", id.c_str());
    }
  }

  void end_delayed() {
    while (!delayed_.empty() && delayed_.begin()->first <= uv_now(&loop_.uv())) {
      auto next = std::move(delayed_.begin()->second);
      delayed_.erase(delayed_.begin());
      end(std::move(next.first), next.second);
    }
  }

  tickwheel::event_loop& loop_;
  durable::scheduler scheduler_;
  const std::string file_;
  const bool expects_busy_;
  uv_timer_t tick_{};
  uv_pipe_t commands_{};
  std::array<char, 65536> bytes_{};
  std::string input_;
  std::multimap<std::uint64_t, std::pair<durable::execution, char>> delayed_;
  std::size_t pending_ = 0;
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
    else if (name == "attempts")
      s.options.max_attempts = static_cast<unsigned>(n);
    else if (name == "poll")
      s.options.poll = std::chrono::milliseconds{n};
    else if (name == "lease")
      s.options.lease = std::chrono::milliseconds{n};
    else if (name == "loaded")
      s.options.max_loaded = static_cast<std::size_t>(n);
    else if (name == "running")
      s.options.max_running = static_cast<std::size_t>(n);
    else if (name == "crash")
      s.power.at = static_cast<std::uint64_t>(n);
    else if (name == "errors")
      s.power.errors = static_cast<std::uint64_t>(n);
    else if (name == "seed")
      s.power.seed = static_cast<std::uint64_t>(n);
    else if (name == "busy")
      s.expects_busy = n != 0;
    else if (name == "timeout")
      s.options.request_timeout = std::chrono::milliseconds{n};
    else
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
