// Brings the lines of several processes into the order of their times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chaos {

/// A journal as `crash::read_journal` reads it. All times that it gets are of one clock; those that it writes are the database's.
class merged_journal {
 public:
  /// Adds a line of the parent as of a time, which takes the place of the first `%`.
  void add(std::int64_t at, std::string text) { lines_.push_back({at, 0, std::move(text)}); }
  /// Adds a line of a process, which begins with its number and its time.
  void add_of_process(unsigned process, std::string_view line);
  /// From `at` on the clock of the database is so far ahead. Before `until` it may show either time.
  void set_clock(std::int64_t at, std::int64_t until, std::int64_t ahead);

  /// Returns all lines.
  std::string text() const;

 private:
  struct entry {
    std::int64_t at = 0;
    unsigned process = 0;  // 0: of the parent
    std::string text;      // of a process: without the time
    bool is_clock = false;
    std::int64_t until = 0;
    std::int64_t ahead = 0;
  };
  std::vector<entry> lines_;
};

}  // namespace chaos
