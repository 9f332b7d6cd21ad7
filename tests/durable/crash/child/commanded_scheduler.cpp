#include "commanded_scheduler.hpp"

#include "wall_clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace crash {

namespace durable = tickwheel::durable;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t longest_line = 512;
constexpr std::array states{durable::task_state::pending, durable::task_state::running, durable::task_state::dead,
                            durable::task_state::finished, durable::task_state::cancelled};
constexpr std::size_t list_page = 1000;

std::uint64_t last_number = 0;  // of a line

std::int64_t in_ns(durable::clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

}  // namespace

void fail(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): nothing else exits
}

void say(const char* format, ...) {
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

std::string_view next_word(std::string_view& rest, char end) {
  const auto length = std::min(rest.find(end), rest.size());
  const auto word = rest.substr(0, length);
  rest.remove_prefix(std::min(length + 1, rest.size()));
  return word;
}

bool set_option(durable::scheduler_options& options, std::string_view name, std::int64_t value) {
  if (name == "attempts")
    options.max_attempts = static_cast<unsigned>(value);
  else if (name == "poll")
    options.poll = std::chrono::milliseconds{value};
  else if (name == "lease")
    options.lease = std::chrono::milliseconds{value};
  else if (name == "timeout")
    options.request_timeout = std::chrono::milliseconds{value};
  else if (name == "loaded")
    options.max_loaded = static_cast<std::size_t>(value);
  else if (name == "running")
    options.max_running = static_cast<std::size_t>(value);
  else
    return false;
  return true;
}

commanded_scheduler::commanded_scheduler(tickwheel::event_loop& loop, std::unique_ptr<durable::store> store,
                                         const durable::scheduler_options& options, bool starts)
    : loop_{loop}, scheduler_{loop.timers(), std::move(store), options} {
  if (starts) scheduler_.on_due([this](execution run) noexcept { on_due(std::move(run)); });
  if (const int error = uv_timer_init(&loop.uv(), &tick_)) fail("uv_timer_init", uv_strerror(error));
  tick_.data = this;
  (void)uv_timer_start(
      &tick_, [](uv_timer_t* t) { static_cast<commanded_scheduler*>(t->data)->end_delayed(); }, 1, 1);
  if (const int error = uv_pipe_init(&loop.uv(), &commands_, 0)) fail("uv_pipe_init", uv_strerror(error));
  commands_.data = this;
  if (const int error = uv_pipe_open(&commands_, STDIN_FILENO)) fail("uv_pipe_open", uv_strerror(error));
}

bool commanded_scheduler::obey_also(std::string_view, std::string_view) { return false; }

void commanded_scheduler::open() {
  const int error = scheduler_.open([this](int result) noexcept {
    say("ready %d", result);
    on_ready(result);
    if (result != 0 && result != UV_ECANCELED) fail("open", std::string{scheduler_.problem()}.c_str());
  });
  if (error != 0) fail("open", uv_strerror(error));
}

void commanded_scheduler::listen() {
  const auto allocate = [](uv_handle_t* h, std::size_t, uv_buf_t* into) {
    auto& self = *static_cast<commanded_scheduler*>(h->data);
    *into = uv_buf_init(self.bytes_.data(), static_cast<unsigned>(self.bytes_.size()));
  };
  const auto on_read = [](uv_stream_t* s, ssize_t count, const uv_buf_t* from) {
    if (count < 0) _exit(0);  // the parent is gone
    static_cast<commanded_scheduler*>(s->data)->take({from->base, static_cast<std::size_t>(count)});
  };
  const int error = uv_read_start(reinterpret_cast<uv_stream_t*>(&commands_), allocate, on_read);
  if (error != 0) fail("uv_read_start", uv_strerror(error));
}

void commanded_scheduler::take(std::string_view more) {
  input_ += more;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = input_.find('\n', begin)) != std::string::npos; begin = end + 1)
    obey(std::string_view{input_}.substr(begin, end - begin));
  input_.erase(0, begin);
}

void commanded_scheduler::obey(std::string_view line) {
  const auto what = next_word(line);
  if (what == "left") return count_left();
  if (what == "list") return list_all(0, {});
  if (what == "reopen") return reopen();
  if (what == "drain") return drain();
  if (what == "partitions") return say("partitions %zu", scheduler_.stats().partitions);
  if (what == "mark") return say("marked");
  if (what == "free") {
    const auto id = next_word(line);
    return free(id, number_of<std::uint64_t>(line));
  }
  if (obey_also(what, line)) return;
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

int commanded_scheduler::schedule(unsigned number, const std::string& id, std::string_view rest) {
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

void commanded_scheduler::count_left() {
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
void commanded_scheduler::list_all(std::size_t which, std::string after) {
  if (which == states.size()) return say("listed");
  const auto state = states.at(which);
  auto print = [this, which, after = std::string{after}](durable::read_result r,
                                                         std::vector<durable::task_info> tasks) noexcept {
    if (r != durable::read_result::ok) return void(list_again_ = {which, after});
    for (const auto& t : tasks)
      say("row %s %s %u %u %d", to_string(t.state), t.what.id.c_str(), t.attempts, t.lost, t.cancelling ? 1 : 0);
    tasks.size() == list_page ? list_all(which, tasks.back().what.id) : list_all(which + 1, {});
  };
  if (const int error = scheduler_.list(state, after, list_page, std::move(print))) fail("list", uv_strerror(error));
}

void commanded_scheduler::reopen() {
  scheduler_.close();
  delayed_.clear();  // inert
  external_.clear();
  say("closed");
  open();
}

void commanded_scheduler::drain() {
  const int error = scheduler_.drain([this]() noexcept {
    say("drained");
    scheduler_.close();
    _exit(0);
  });
  if (error != 0 && error != UV_EALREADY) fail("drain", uv_strerror(error));
}

void commanded_scheduler::on_due(execution run) {
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
    case 'x':
      say("external %.*s %" PRIu64 " %.*s/%" PRId64, static_cast<int>(run.id().size()), run.id().data(), run.token(),
          static_cast<int>(number.size()), number.data(), in_ns(run.due()));
      external_.insert_or_assign(std::pair{std::string{run.id()}, run.token()}, std::move(run));
      return;
    case 'a':
      std::abort();
    default:
      return end(std::move(run), letter);
  }
}

void commanded_scheduler::end(execution run, char letter) {
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
    case 'R':
      announce("again");
      return run.retry_after(0ns, std::move(confirm));
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

void commanded_scheduler::end_delayed() {
  if (const auto again = std::exchange(list_again_, std::nullopt)) list_all(again->first, again->second);
  while (!delayed_.empty() && delayed_.begin()->first <= uv_now(&loop_.uv())) {
    auto next = std::move(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    end(std::move(next.first), next.second);
  }
}

// A start that is known no more was lost with its session.
void commanded_scheduler::free(std::string_view id, std::uint64_t token) {
  auto known = external_.extract({std::string{id}, token});
  if (!known.empty()) end(std::move(known.mapped()), 'R');
}

}  // namespace crash
