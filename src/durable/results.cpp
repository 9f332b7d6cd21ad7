#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/store.hpp>

#include <array>
#include <cstddef>

namespace tickwheel::durable {

namespace {

template <class Enum, std::size_t N>
const char* name_of(Enum value, const std::array<const char*, N>& names) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : "invalid";
}

}  // namespace

const char* to_string(schedule_result r) noexcept {
  return name_of(
      r, std::array{"scheduled", "replaced", "exists", "ended", "running", "refused", "unavailable", "unknown"});
}
const char* to_string(cancel_result r) noexcept {
  return name_of(r, std::array{"cancelled", "running", "finished", "not_found", "unavailable", "unknown"});
}
const char* to_string(finish_result r) noexcept { return name_of(r, std::array{"finished", "stale", "unknown"}); }
const char* to_string(revive_result r) noexcept {
  return name_of(r, std::array{"revived", "not_dead", "not_found", "unavailable", "unknown"});
}
const char* to_string(read_result r) noexcept { return name_of(r, std::array{"ok", "not_found", "unavailable"}); }
const char* to_string(store_verb v) noexcept {
  return name_of(v, std::array{"join", "renew", "bury", "acquire", "release", "load", "begin", "finish", "recover",
                               "put", "cancel", "revive", "get", "list", "purge"});
}
const char* to_string(task_state s) noexcept {
  return name_of(s, std::array{"pending", "running", "dead", "finished", "cancelled"});
}

}  // namespace tickwheel::durable
