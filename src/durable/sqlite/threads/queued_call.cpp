#include "queued_call.hpp"

namespace tickwheel::durable::sqlite {

call_list call_list::split_before(const queued_call& call) noexcept {
  call_list before;
  while (first_ != &call) before.push(pop());
  return before;
}

// splits the list in two, sorts both, and merges them
void call_list::sort() noexcept {
  if (first_ == last_) return;
  call_list halves[2];
  for (bool second = false; !empty(); second = !second) halves[second ? 1 : 0].push(pop());
  for (call_list& half : halves) half.sort();
  while (!halves[0].empty() && !halves[1].empty()) {
    const bool second = halves[1].front().number < halves[0].front().number;
    push(halves[second ? 1 : 0].pop());
  }
  for (call_list& half : halves) append(std::move(half));
}

}  // namespace tickwheel::durable::sqlite
