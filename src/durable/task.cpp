#include <tickwheel/durable/task.hpp>

#include "utf8.hpp"

#include <chrono>

namespace tickwheel::durable {

namespace {

using namespace std::chrono_literals;

// the first and the last time that are refused
constexpr clock::time_point epoch{};
constexpr clock::time_point end_of_range = std::chrono::sys_days{std::chrono::year{2200} / 1 / 1};

constexpr bool is_control(std::uint32_t code_point) noexcept {
  return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f);
}

}  // namespace

bool is_valid_id(std::string_view id) noexcept {
  if (id.empty() || id.size() > max_id_bytes) return false;
  while (!id.empty()) {
    const detail::code_point first = detail::first_of(id);
    if (first.bytes == 0 || is_control(first.value)) return false;
    id.remove_prefix(first.bytes);
  }
  return true;
}

const char* problem(const task& what, std::size_t max_payload) noexcept {
  if (what.id.empty()) return "task::id is empty";
  if (what.id.size() > max_id_bytes) return "task::id is longer than 255 bytes";
  if (!is_valid_id(what.id)) return "task::id is not UTF-8, or has a control character";
  if (what.due <= epoch) return "task::due is not after 1970-01-01";
  if (what.due >= end_of_range) return "task::due is not before 2200-01-01";
  if (what.payload.size() > max_payload) return "task::payload is longer than scheduler_options::max_payload";
  if (what.period < 0ns) return "task::period is negative";
  if (what.period > 0ns && what.period < 1ms) return "task::period is shorter than 1 ms";
  return nullptr;
}

}  // namespace tickwheel::durable
