#include "merged_journal.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace chaos {

namespace {

// libfaketime reckons with doubles
constexpr std::int64_t inexactness = 1'000;

}  // namespace

void merged_journal::add_of_process(unsigned process, std::string_view line) {
  const auto number_end = std::min(line.find(' '), line.size());
  const auto time_end = std::min(line.find(' ', std::min(number_end + 1, line.size())), line.size());
  std::int64_t at = 0;
  (void)std::from_chars(line.data() + std::min(number_end + 1, line.size()), line.data() + time_end, at);
  std::string text = "@" + std::to_string(process) + " ";
  text.append(line.substr(0, number_end)).append(" %").append(line.substr(time_end));
  lines_.push_back({at, process, std::move(text)});
}

void merged_journal::set_clock(std::int64_t at, std::int64_t until, std::int64_t ahead) {
  lines_.push_back({at, 0, {}, true, until, ahead});
}

std::string merged_journal::text() const {
  std::vector<const entry*> sorted;
  sorted.reserve(lines_.size());
  for (const entry& e : lines_) sorted.push_back(&e);
  std::stable_sort(sorted.begin(), sorted.end(), [](const entry* a, const entry* b) { return a->at < b->at; });
  std::string out;
  std::int64_t ahead = 0;
  for (const entry* const e : sorted) {
    if (e->is_clock) {
      const std::int64_t before = e->until + ahead + inexactness;
      ahead = e->ahead;
      const std::int64_t after = e->at + ahead - inexactness;
      out += "clock " + std::to_string(after) + " " + std::to_string(before) + " " + std::to_string(after) + "\n";
      continue;
    }
    // an id may have a `%`, but no text before the time has one
    const auto place = e->text.find('%');
    if (place == std::string::npos)
      out += e->text;
    else
      out.append(e->text, 0, place).append(std::to_string(e->at + ahead)).append(e->text, place + 1);
    out += '\n';
  }
  return out;
}

}  // namespace chaos
