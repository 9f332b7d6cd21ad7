// A scheduler that does as the parent says, and writes a line for each event. Its process may be killed at any moment.
//
// Commands come as lines on standard input. `journal.hpp` describes the lines that it writes.
//
//   schedule N ID DUE PERIOD keep|replace PAYLOAD     the payload is N/PLAN/ANYTHING
//   cancel|revive|get N ID
//   finish N ID TOKEN
//   free ID TOKEN     ends a start whose plan is x
//   left              writes how many tasks are pending and running
//   list              writes all tasks
//   partitions        writes how many partitions it owns
//   reopen            closes the scheduler and opens it again
//   drain             drains, and exits
//   mark              writes a line
//
// A plan has a letter for each attempt, and the last one for all others: (d)one at once, done (D)elayed by some milliseconds, done
// after (l)ong, (f)ail, (r)etry some times, (b)ury, dropped with (n)o answer, (a)bort of the process, e(x)ternal: waits for `free`.
#pragma once

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/uv/event_loop.hpp>

#include <uv.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace crash {

/// Ends the process with code 2, and says why on standard error.
[[noreturn]] void fail(const char* what, const char* why);

/// Writes a line with its number and the time. One write of at most 512 bytes to a pipe is never torn.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...);

/// Takes the text up to `end` off `rest`.
std::string_view next_word(std::string_view& rest, char end = ' ');

template <class Number>
Number number_of(std::string_view word) {
  Number n{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size()) fail("not a number", std::string{word}.c_str());
  return n;
}

/// Sets the option that a program got as NAME=NUMBER. Returns false if there is none of this name.
bool set_option(tickwheel::durable::scheduler_options&, std::string_view name, std::int64_t value);

class commanded_scheduler {
 public:
  /// `starts`: it starts tasks; otherwise it is only a producer.
  commanded_scheduler(tickwheel::event_loop&, std::unique_ptr<tickwheel::durable::store>,
                      const tickwheel::durable::scheduler_options&, bool starts = true);
  virtual ~commanded_scheduler() = default;
  commanded_scheduler(const commanded_scheduler&) = delete;
  commanded_scheduler& operator=(const commanded_scheduler&) = delete;

  void open();
  /// Reads commands, until the parent is gone.
  void listen();

 protected:
  /// The scheduler has joined its store, or never can.
  virtual void on_ready(int) {}
  /// Obeys a command that the others do not know. Returns false if it does not know it either.
  virtual bool obey_also(std::string_view what, std::string_view rest);

 private:
  using execution = tickwheel::durable::execution;

  void take(std::string_view more);
  void obey(std::string_view line);
  int schedule(unsigned number, const std::string& id, std::string_view rest);
  void free(std::string_view id, std::uint64_t token);
  void count_left();
  void list_all(std::size_t which, std::string after);
  void reopen();
  void drain();
  void on_due(execution run);
  static void end(execution run, char letter);
  void end_delayed();

  tickwheel::event_loop& loop_;
  tickwheel::durable::scheduler scheduler_;
  uv_timer_t tick_{};
  uv_pipe_t commands_{};
  std::array<char, 65536> bytes_{};
  std::string input_;
  std::multimap<std::uint64_t, std::pair<execution, char>> delayed_;
  std::map<std::pair<std::string, std::uint64_t>, execution> external_;
  std::size_t pending_ = 0;
  std::optional<std::pair<std::size_t, std::string>>
      list_again_;  // the store could not be read: from this state and id on
};

}  // namespace crash
