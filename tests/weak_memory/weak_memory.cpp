// Explores the code between threads under the C++ memory model, by Relacy: the library's own templates, with Relacy's
// atomics in them. README.md says what is explored.
//
//   weak_memory scenarios                     prints the names of the scenarios
//   weak_memory shipped SCENARIO ITERATIONS   runs one with the code as it is: nothing must be reported
//   weak_memory weaker                        prints each memory order that is reached, weakened by one step
//   weak_memory weakened ORDER ITERATIONS     runs all scenarios with one of those: some scenario must report it
#include "../../src/uv/post_queue.cpp"  // templates: their definitions

#include "loop.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

// Relacy replaces the ordinary operators, to find leaks and blocks that are freed twice. These are the other forms that the code
// under test calls.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return ::operator new(size); }
void operator delete(void* at, std::size_t) noexcept { ::operator delete(at); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  void* const block = ::operator new(size + 2 * align);
  // behind the beginning of the block by at least a pointer, because the block is aligned to 16 bytes
  const auto at = (reinterpret_cast<std::uintptr_t>(block) / align + 1) * align;
  reinterpret_cast<void**>(at)[-1] = block;
  return reinterpret_cast<void*>(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  ::operator delete(static_cast<void**>(at)[-1]);
}

namespace tickwheel::weak_memory {

// --- scenarios: those of tests/uv/remote_threads_test.cpp in small. Thread 0 is the loop's -----------------------------

template <class Self>
struct scenario : rl::test_suite<Self, 1 + scene::others> {
  scene s;
  std::optional<loop> service;
  std::optional<handle> handles[scene::others];
  std::optional<hold> holds[scene::others];
  timer_on_other_thread timers[scene::others][2];

  // on the loop thread, before the others start
  void open(int max_queued = 4, bool with_holds = true) {
    s.max_queued = max_queued;
    s.busy = scene::others;
    service.emplace(s);
    for (int p = 0; p < scene::others; ++p) {
      handles[p].emplace(service->queue());
      if (with_holds) holds[p].emplace(s, *service);
    }
  }

  void thread(unsigned index) {
    if (index == 0) {
      self().loop_thread();
      return;
    }
    const int p = static_cast<int>(index) - 1;
    self().other_thread(p);
    if (holds[p]) {
      s.last_words[p] = 1;
      holds[p].reset();
    }
    handles[p].reset();
    --s.busy;
  }

  // --- parts of the loop's thread ---

  void run_and_close() {
    service->run();
    service->close();
  }
  // A number of iterations below `most`, and then the close.
  void turn_and_close(unsigned most) {
    for (unsigned turns = rl::rand(most); turns != 0; --turns) service->turn(false);
    service->close();
  }

  // Posts or arms until the operation is accepted, or refused for good. A caller that is refused must see what the closing thread
  // did before.
  int post(int p, operation& o, timer_on_other_thread* out = nullptr) {
    o.content = 1;
    int answer = 0;
    while ((answer = handles[p]->post(s, o, out)) == UV_EAGAIN) {
      --s.busy;  // until the loop has delivered something
      let_others_run();
      ++s.busy;
    }
    if (answer == UV_ECANCELED) s.note_of_close.read();
    return answer;
  }

  // A caller that is told that the loop came first must see what the loop thread did before.
  operation_state cancel(operation& o, timer_on_other_thread& timer) {
    const operation_state end = timer.cancel();
    switch (end) {
      case operation_state::cancelled:
        RL_ASSERT(o.ran == 0 && !o.closed);
        o.cancelled = true;
        break;
      case operation_state::ran:
        RL_ASSERT(!o.cancelled && !o.closed);
        o.note_of_loop.read();
        break;
      case operation_state::closed:
        RL_ASSERT(o.ran == 0 && !o.cancelled);
        s.note_of_close.read();
        break;
      default:
        RL_ASSERT(!"an answer");
    }
    return end;
  }

  // Each operation that was accepted has one end, and the counts say so.
  void after() {
    std::uint64_t accepted = 0;
    std::uint64_t ran = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t closed = 0;
    for (const auto& of_one : s.operations)
      for (const operation& o : of_one) {
        const int ends = (o.ran != 0 ? 1 : 0) + (o.cancelled ? 1 : 0) + (o.closed ? 1 : 0);
        RL_ASSERT(ends == (o.accepted ? 1 : 0));
        RL_ASSERT(o.destroyed == (o.accepted && o.owns ? 1 : 0));
        accepted += o.accepted ? 1 : 0;
        ran += o.ran != 0 ? 1 : 0;
        cancelled += o.cancelled ? 1 : 0;
        closed += o.closed ? 1 : 0;
      }
    RL_ASSERT(service->queue().accepted() == accepted);
    RL_ASSERT(service->ran() == ran && service->withdrawn() == cancelled && service->cancelled() == closed);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

struct live_loop : scenario<live_loop> {
  static constexpr const char* name = "producers against a live loop lose nothing and keep their order";
  live_loop() { open(1); }
  void loop_thread() { run_and_close(); }
  void other_thread(int p) {
    for (int i = 0; i < 2; ++i) {
      if (i != 0) s.operations[p][i].before = &s.operations[p][i - 1];
      RL_ASSERT(post(p, s.operations[p][i]) == 0);
    }
  }
  void after() {
    scenario::after();
    RL_ASSERT(service->ran() == 4);
  }
};

struct against_close : scenario<against_close> {
  static constexpr const char* name = "producers against close: every accepted operation has one end";
  against_close() { open(2); }
  void loop_thread() { turn_and_close(5); }
  void other_thread(int p) {
    operation& armed = s.operations[p][0];
    armed.later = rl::rand(2) == 0;
    if (post(p, armed, &timers[p][0]) == 0 && rl::rand(2) == 0) {
      cancel(armed, timers[p][0]);
      timers[p][0].release();
    }
    post(p, s.operations[p][1]);
    if (timers[p][0]) cancel(armed, timers[p][0]);
    timers[p][0].release();
  }
};

struct live_cancels : scenario<live_cancels> {
  static constexpr const char* name = "a cancel against a live loop wins or is late, and its notice wakes the loop";
  live_cancels() { open(2); }
  void loop_thread() { run_and_close(); }
  void other_thread(int p) {
    for (int i = 0; i < 2; ++i) {
      s.operations[p][i].later = i == 0 || rl::rand(2) == 0;
      RL_ASSERT(post(p, s.operations[p][i], &timers[p][i]) == 0);
    }
    for (int i = 0; i < 2; ++i) {
      // the thread that cancelled may reuse what the handler would have used
      if (cancel(s.operations[p][i], timers[p][i]) == operation_state::cancelled) s.operations[p][i].content = 3;
      timers[p][i].release();
    }
  }
  void after() {
    scenario::after();
    RL_ASSERT(service->cancelled() == 0);
  }
};

struct two_cancel : scenario<two_cancel> {
  static constexpr const char* name = "cancelling by two threads against a firing loop has exactly one winner";
  bool asked_first = false;
  two_cancel() {
    open(4, false);
    for (int i = 0; i < 2; ++i) {
      s.operations[0][i].later = rl::rand(2) == 0;
      RL_ASSERT(post(0, s.operations[0][i], &timers[0][i]) == 0);
    }
    if (rl::rand(2) == 0) service->turn(false);
  }
  void loop_thread() {
    for (unsigned turns = rl::rand(5); turns != 0; --turns) service->turn(false);
    if (rl::rand(2) == 0) service->close();
  }
  void other_thread(int p) {
    // both at once, or the second after the first has been answered
    if (p == 0) {
      for (operation& o : s.operations[0]) o.note_of_canceller = 1;
      for (int i = 0; i < 2; ++i) cancel(s.operations[0][i], timers[0][i]);
      asked_first = true;
      return;
    }
    const bool again = rl::rand(2) == 0;
    while (again && !asked_first) let_others_run();
    for (int i = 0; i < 2; ++i)
      if (cancel(s.operations[0][i], timers[0][i]) == operation_state::cancelled && again)
        s.operations[0][i].note_of_canceller.read();
  }
  void after() {
    service->close();
    scenario::after();
    for (timer_on_other_thread& t : timers[0]) t.release();
  }
};

struct cancel_against_close : scenario<cancel_against_close> {
  static constexpr const char* name = "cancelling on another thread against close frees each timer once";
  cancel_against_close() {
    open(4, false);
    for (int p = 0; p < scene::others; ++p) {
      s.operations[p][0].later = true;
      RL_ASSERT(post(p, s.operations[p][0], &timers[p][0]) == 0);
    }
    service->turn(false);
    if (rl::rand(2) == 0) service->turn(false);
  }
  void loop_thread() { turn_and_close(3); }
  void other_thread(int p) {
    cancel(s.operations[p][0], timers[p][0]);
    timers[p][0].release();
  }
};

struct copies : scenario<copies> {
  static constexpr const char* name = "handles, holds and timers are copied and dropped while the service goes";
  copies() { open(); }
  void loop_thread() {
    if (rl::rand(2) == 0) service->turn(false);
    service->close();
    service.reset();
  }
  void other_thread(int p) {
    const handle copy = *handles[p];
    hold another = *holds[p];
    operation& o = s.operations[p][0];
    o.later = true;
    o.content = 1;
    timer_on_other_thread t;
    if (copy.post(s, o, &t) == 0 && rl::rand(2) == 0) {
      if (t.cancel() == operation_state::cancelled) o.cancelled = true;
    }
    holds[p].reset();
    s.last_words[p] = 1;
  }
  void after() {}
};

struct asked_while_closing : scenario<asked_while_closing> {
  static constexpr const char* name = "remote() may be asked while the service closes";
  asked_while_closing() { open(4, false); }
  void loop_thread() { turn_and_close(2); }
  void other_thread(int p) {
    for (operation& o : s.operations[p]) {
      o.later = true;
      o.content = 1;
      const handle asked{service->queue()};
      if (asked.post(s, o) != UV_ECANCELED) continue;
      s.note_of_close.read();
      return;
    }
  }
};

struct sleeping_loop : scenario<sleeping_loop> {
  static constexpr const char* name = "a loop that sleeps between posts misses no wakeup";
  sleeping_loop() { open(); }
  void loop_thread() { run_and_close(); }
  void other_thread(int p) {
    for (operation& o : s.operations[p]) {
      RL_ASSERT(post(p, o) == 0);
      --s.busy;
      while (o.ran == 0) let_others_run();
      ++s.busy;
    }
  }
  void after() {
    scenario::after();
    RL_ASSERT(service->ran() == 4);
  }
};

struct wake_against_close : scenario<wake_against_close> {
  static constexpr const char* name = "producers that wake the loop while the service closes meet no closed handle";
  wake_against_close() { open(4, false); }
  void loop_thread() { turn_and_close(3); }
  void other_thread(int p) {
    for (operation& o : s.operations[p])
      if (post(p, o) != 0) return;
  }
};

// --- running them ------------------------------------------------------------------------------------------------------

struct named_scenario {
  const char* name;
  bool (*simulate)(rl::test_params&);
};

template <class... S>
std::vector<named_scenario> scenarios_of() {
  return {{S::name, &rl::simulate<S>}...};
}

std::vector<named_scenario> scenarios() {
  return scenarios_of<live_loop, against_close, live_cancels, two_cancel, cancel_against_close, copies,
                      asked_while_closing, sleeping_loop, wake_against_close>();
}

struct result {
  bool reported;
  std::string what;     // one line
  std::string history;  // all steps of the execution
};

// Runs the executions first to last. The number of an execution determines it.
result explore(const named_scenario& which, std::uint64_t first, std::uint64_t last) {
  std::ostringstream said;
  rl::test_params params;
  params.output_stream = &said;
  params.progress_stream = &said;
  params.iteration_count = last;
  params.execution_depth_limit = 20'000;
  params.initial_state = std::to_string(first) + " ";
  if (which.simulate(params)) return {false, {}, {}};
  const std::string history = said.str();
  std::istringstream lines{history};
  std::string what;
  std::getline(lines, what);  // the scenario, as the compiler spells it
  std::getline(lines, what);
  return {true, what + ", iteration " + std::to_string(params.stop_iteration), history};
}

struct weaker_order {
  site where;
  std::memory_order order;
  std::string name() const {
    const std::string_view file{where.file};
    return std::string{file.substr(file.rfind('/') + 1)} + ": " + where.name() + ": " + where.operation + ": " +
           forms_of(where.order).text + " -> " + forms_of(order).text;
  }
};

std::vector<weaker_order> weaker_orders() {
  using enum std::memory_order;
  for (const named_scenario& each : scenarios()) explore(each, 1, 2'000);
  std::vector<weaker_order> all;
  for (const site& s : site_list{}) {
    if (s.order == acq_rel) {
      all.push_back({s, acquire});
      all.push_back({s, release});
    } else if (s.order != relaxed) {
      all.push_back({s, relaxed});
    }
  }
  return all;
}

int run_shipped(const named_scenario& which, std::uint64_t iterations) {
  const result r = explore(which, 1, iterations);
  std::printf("%-5s  %-80s %s\n", r.reported ? "WRONG" : "ok", which.name,
              r.reported ? r.what.c_str() : (std::to_string(iterations) + " iterations").c_str());
  if (r.reported) std::fputs(r.history.c_str(), stdout);
  return r.reported ? 1 : 0;
}

int run_weakened(const weaker_order& which, std::uint64_t iterations) {
  site_list::weaken(which.where, which.order);
  // a few executions of each scenario first, because some scenario finds most orders soon
  for (std::uint64_t first = 1, last = 1'000; first < iterations; first = last + 1, last = 10 * last)
    for (const named_scenario& each : scenarios()) {
      const result r = explore(each, first, std::min(last, iterations));
      if (!r.reported) continue;
      std::printf("%-5s  %-62s reported: %s: %s\n", "ok", which.name().c_str(), each.name, r.what.c_str());
      return 0;
    }
  std::printf("%-5s  %-62s not reported\n", "WRONG", which.name().c_str());
  return 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "scenarios") {
    for (const named_scenario& each : scenarios()) std::puts(each.name);
    return 0;
  }
  if (arguments.size() == 1 && arguments[0] == "weaker") {
    for (const weaker_order& each : weaker_orders()) std::puts(each.name().c_str());
    return 0;
  }
  if (arguments.size() == 3) {
    const std::uint64_t iterations = std::strtoull(arguments[2].c_str(), nullptr, 10);
    if (arguments[0] == "shipped") {
      for (const named_scenario& each : scenarios())
        if (arguments[1] == each.name) return run_shipped(each, iterations);
    } else if (arguments[0] == "weakened") {
      for (const weaker_order& each : weaker_orders())
        if (arguments[1] == each.name()) return run_weakened(each, iterations);
    }
  }
  std::fputs("weak_memory: shipped SCENARIO ITERATIONS, scenarios, weaker, or weakened ORDER ITERATIONS\n", stderr);
  return 2;
}

}  // namespace tickwheel::weak_memory

int main(int argc, char** argv) { return tickwheel::weak_memory::run({argv + 1, argv + argc}); }
