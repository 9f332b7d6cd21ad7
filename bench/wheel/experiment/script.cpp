#include "script.hpp"

#include "../../support/connection.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tickwheel::bench {

using std::chrono::nanoseconds;

std::uint64_t outcome::checksum() const noexcept {
  constexpr std::uint64_t largest_prime_of_six_digits = 999'983;
  std::uint64_t sum = 0;
  for (const std::uint64_t part : {cancels, expired, expired_sum, left_sum, course}) sum = mix(sum ^ part);
  return sum % largest_prime_of_six_digits;
}

void outcome::mark() noexcept { course = mix(course ^ expired_sum); }

script_writer::script_writer(std::size_t connections, std::vector<nanoseconds> marks)
    : marks_{std::move(marks)}, due_(connections) {}

std::vector<std::uint32_t> script_writer::shuffled() {
  std::vector<std::uint32_t> all(due_.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  std::shuffle(all.begin(), all.end(), random_);
  return all;
}

std::uint32_t script_writer::draw_connection(nanoseconds now) {
  std::uniform_int_distribution<std::uint32_t> any{0, static_cast<std::uint32_t>(due_.size() - 1)};
  for (;;) {
    const std::uint32_t c = any(random_);
    if (!due_[c] || std::chrono::abs(*due_[c] - now) > margin) return c;
  }
}

std::uint32_t script_writer::draw_delay_us(nanoseconds now, std::chrono::microseconds least,
                                           std::chrono::microseconds most) {
  std::uniform_int_distribution<std::uint32_t> any{static_cast<std::uint32_t>(least.count()),
                                                   static_cast<std::uint32_t>(most.count())};
  for (;;) {
    const std::uint32_t us = any(random_);
    const nanoseconds due = now + std::chrono::microseconds{us};
    const auto near = [&](nanoseconds mark) { return std::chrono::abs(due - mark) <= margin; };
    if (std::none_of(marks_.begin(), marks_.end(), near)) return us;
  }
}

void script_writer::arm(std::uint32_t c, nanoseconds due, nanoseconds now) {
  expire(c, now);
  due_[c] = due;
}

void script_writer::cancel(std::uint32_t c, nanoseconds now) {
  expire(c, now);
  outcome_.cancels += due_[c].has_value();
  due_[c].reset();
}

void script_writer::destroy(std::uint32_t c, nanoseconds now) {
  expire(c, now);
  due_[c].reset();
}

void script_writer::expire(std::uint32_t c, nanoseconds now) {
  if (!due_[c] || *due_[c] > now) return;
  due_[c].reset();
  ++outcome_.expired;
  outcome_.expired_sum += mix(c);
}

void script_writer::conclude(script& s) {
  for (const nanoseconds mark : marks_) {
    for (std::uint32_t c = 0; c < due_.size(); ++c) expire(c, mark);
    outcome_.mark();
  }
  for (std::uint32_t c = 0; c < due_.size(); ++c) outcome_.left_sum += mix_due(c, due_[c]);
  s.expected = outcome_;
  s.left = due_;
}

std::uint64_t mix_due(std::uint64_t id, std::optional<nanoseconds> due) noexcept {
  return due ? mix(mix(id) ^ static_cast<std::uint64_t>(due->count())) : 0;
}

}  // namespace tickwheel::bench
