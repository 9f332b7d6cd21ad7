#include "ledger.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <system_error>

namespace timer_load {

using namespace std::chrono_literals;

namespace {

void print(const char* what, std::size_t count) { std::printf("  %-44s %9zu\n", what, count); }

bool print_zero(const char* what, std::size_t count) {
  std::printf("  %-44s %9zu  %s\n", what, count, count == 0 ? "right" : "WRONG");
  return count == 0;
}

}  // namespace

void ledger::lose_server() {
  if (is_away_ || is_over()) return;
  is_away_ = true;
  outages_.emplace_back(now(), wall_time::max());
}

void ledger::call(std::string_view id) {
  const std::size_t dash = id.rfind('-');
  std::size_t i = 0;
  const auto [end, error] = std::from_chars(id.data() + dash + 1, id.data() + id.size(), i);
  if (error != std::errc{} || i >= timers.size() || id != id_of(i)) return;  // of an earlier run
  timer& t = timers[i];
  const wall_time at = now();
  hear(at);
  if (t.calls++ == 0) {
    t.called_at = at;
    ++called;
    early += at < t.due;
  } else {
    ++repeated;
  }
}

bool ledger::judge(const load_options& asked) const {
  std::array<std::vector<double>, 2> late;  // in milliseconds: undisturbed, and disturbed by an outage
  std::size_t lost = 0;
  for (const timer& t : timers) {
    if (t.calls == 0) {
      lost += t.is_confirmed;
      continue;
    }
    late[was_disturbed(t) ? 1 : 0].push_back(std::chrono::duration<double, std::milli>(t.called_at - t.due).count());
  }
  print("confirmed", confirmed);
  print("called", called);
  print("called again, with the same Idempotency-Key", repeated);
  print("outages", outages());
  constexpr std::array names{"lateness", "lateness, due in an outage or just after"};
  for (std::size_t i = 0; i != late.size(); ++i) {
    if (late[i].empty()) continue;
    std::sort(late[i].begin(), late[i].end());
    std::printf("  %-44s p50 %.1f ms, p99 %.1f ms, of %zu\n", names[i], late[i][late[i].size() / 2],
                late[i][late[i].size() * 99 / 100], late[i].size());
  }
  bool right = print_zero("not confirmed", timers.size() - confirmed);
  right &= print_zero("lost", lost);
  right &= print_zero("early", early);
  if (outages() < asked.outages) {
    std::printf("  WRONG: %zu outages were seen of %zu\n", outages(), asked.outages);
    right = false;
  }
  return right;
}

bool ledger::write_points(const std::string& file) const {
  std::ofstream out{file};
  const auto first =
      std::min_element(timers.begin(), timers.end(), [](const timer& a, const timer& b) { return a.due < b.due; });
  for (const timer& t : timers)
    if (t.calls != 0)
      out << std::chrono::duration<double>(t.due - first->due).count() << ' '
          << std::chrono::duration<double, std::milli>(t.called_at - t.due).count() << '\n';
  return static_cast<bool>(out.flush());
}

bool ledger::was_disturbed(const timer& t) const {
  constexpr auto catching_up = 2s;
  return std::any_of(outages_.begin(), outages_.end(), [&](const auto& o) {
    return t.called_at >= o.first && (o.second == wall_time::max() || t.due <= o.second + catching_up);
  });
}

}  // namespace timer_load
