// Writes the journal of a run, as tests/durable/crash/judge/journal.hpp describes it.
#pragma once

#include "units.hpp"

#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace simulation {

class journal_writer {
 public:
  /// `wall` returns what the store's clock shows.
  explicit journal_writer(std::function<nanos()> wall) : wall_{std::move(wall)} {}

  nanos wall() const { return wall_(); }
  const std::string& text() const noexcept { return text_; }

  /// Writes a line as it is.
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    add("", format, arguments);
    va_end(arguments);
  }
  /// Writes a line of a process.
  [[gnu::format(printf, 3, 4)]] void of_process(std::uint32_t process, const char* format, ...) {
    if (process >= last_.size()) last_.resize(process + 1);
    char head[64];
    std::snprintf(head, sizeof head, "@%" PRIu32 " %" PRIu64 " %" PRId64 " ", process, ++last_[process], wall());
    std::va_list arguments;
    va_start(arguments, format);
    add(head, format, arguments);
    va_end(arguments);
  }

 private:
  void add(const char* head, const char* format, std::va_list arguments) {
    char rest[400];
    std::vsnprintf(rest, sizeof rest, format, arguments);
    text_.append(head).append(rest).append("\n");
  }

  std::function<nanos()> wall_;
  std::string text_;
  std::vector<std::uint64_t> last_;  // the number of the last line, by process
};

}  // namespace simulation
