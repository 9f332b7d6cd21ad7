#include "possible_row.hpp"

#include <algorithm>
#include <cstdlib>

namespace durable_model {

answer possible_row::mark_of(int number) const {
  for (std::size_t i = 0; i != marked; ++i)
    if (marks[i].number == number) return marks[i].is;
  return answer::none;
}

void possible_row::set_mark(const request& r, answer is) {
  erase_mark(r.number);
  if (marked == marks.size()) std::abort();  // more requests are open than members can have
  std::size_t place = marked++;
  for (; place != 0 && marks[place - 1].number > r.number; --place) marks[place] = marks[place - 1];
  marks[place] = {r.number, r.member, is};
}

void possible_row::erase_mark(int number) {
  const auto last = std::remove_if(marks.begin(), marks.begin() + marked, [=](mark m) { return m.number == number; });
  marked = static_cast<std::uint8_t>(last - marks.begin());
  std::fill(last, marks.end(), mark{});
}

void possible_row::set_hash() {
  std::uint64_t h = 0;
  const auto mix = [&h](auto value) { h = (h ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U ^ h >> 29; };
  mix(static_cast<int>(state) | static_cast<int>(stop) << 4 | static_cast<int>(is_first) << 5);
  mix(std::uint64_t{attempts} << 32 | lost);
  mix(content);
  mix(error);
  mix(holder);
  mix(token);
  mix(ended);
  for (std::size_t i = 0; i != marked; ++i) mix(marks[i].number * 16 + static_cast<int>(marks[i].is));
  hash = h;
}

bool possible_row::is_like(const possible_row& o) const {
  return state == o.state && attempts == o.attempts && lost == o.lost && stop == o.stop && is_first == o.is_first &&
         content == o.content && error == o.error && holder == o.holder && token == o.token && ended == o.ended &&
         marked == o.marked && marks == o.marks;
}

}  // namespace durable_model
