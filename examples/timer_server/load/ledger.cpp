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
  if (is_away_ || is_settled()) return;
  is_away_ = true;
  early_outages_ += confirmed_ != 0 && confirmed_ != timers_.size();
  outages_.emplace_back(now(), wall_time::max());
}

void ledger::call(const call_headers& headers, wall_time at) {
  const std::string_view id = headers.id;
  const std::size_t dash = id.rfind('-');
  std::size_t i = 0;
  const std::size_t digits = dash == std::string_view::npos ? 0 : dash + 1;
  const auto [end, error] = std::from_chars(id.data() + digits, id.data() + id.size(), i);
  if (error != std::errc{} || i >= timers_.size() || id != id_of(i)) return;  // of an earlier run
  hear(at);
  change(i, [&](timer_record& t) { t.call(id_of(i), headers, at, faults_); });
}

bool ledger::judge(const load_options& asked) const {
  std::array<std::vector<double>, 2> late;  // in milliseconds: undisturbed, and disturbed by an outage
  std::array<std::size_t, 5> changed{};     // by their answers
  std::size_t called = 0, again = 0, lost = 0, unanswered = 0;
  for (const timer_record& t : timers_) {
    lost += t.is_lost();
    unanswered += t.is_unanswered();
    if (t.changed()) ++changed[static_cast<std::size_t>(*t.changed())];
    if (t.calls() == 0) continue;
    ++called;
    again += t.repeats();
    const std::chrono::duration<double, std::milli> lateness = t.first_called_at() - t.first_called_for();
    late[was_disturbed(t) ? 1 : 0].push_back(lateness.count());
  }
  const auto count_of = [&](change_answer what) { return changed[static_cast<std::size_t>(what)]; };
  print("confirmed", confirmed_);
  if (asked.has_changes()) {
    print("cancelled", count_of(change_answer::cancelled));
    print("cancelled while they were called", count_of(change_answer::cancelling));
    print("replaced", count_of(change_answer::replaced));
    print("called before they could be changed", count_of(change_answer::kept));
  }
  print("called", called);
  print("called again, with the same Idempotency-Key", again);
  print("outages", outages());
  print("outages while timers were scheduled", early_outages_);
  constexpr std::array names{"lateness", "lateness, due in an outage or just after"};
  for (std::size_t i = 0; i != late.size(); ++i) {
    if (late[i].empty()) continue;
    std::sort(late[i].begin(), late[i].end());
    std::printf("  %-44s p50 %.1f ms, p99 %.1f ms, of %zu\n", names[i], late[i][late[i].size() / 2],
                late[i][late[i].size() * 99 / 100], late[i].size());
  }
  bool right = print_zero("not confirmed", timers_.size() - confirmed_);
  right &= print_zero("lost", lost);
  right &= print_zero("early", faults_.early);
  right &= print_zero("wrong Idempotency-Key or Timer-Due", faults_.wrong_key);
  right &= print_zero("Timer-Token that did not grow", faults_.stale_token);
  if (asked.has_changes()) {
    right &= print_zero("cancelled or replaced without an answer", unanswered);
    right &= print_zero("called after a confirmed cancel", faults_.after_cancel);
    right &= print_zero("called for a due time that was replaced", faults_.after_replacing);
  }
  if (outages() < asked.outages) {
    std::printf("  WRONG: %zu outages were seen of %zu\n", outages(), asked.outages);
    right = false;
  }
  return right;
}

bool ledger::write_points(const std::string& file) const {
  std::ofstream out{file};
  const auto first = std::min_element(timers_.begin(), timers_.end(),
                                      [](const timer_record& a, const timer_record& b) { return a.due() < b.due(); });
  for (const timer_record& t : timers_)
    if (t.calls() != 0)
      out << std::chrono::duration<double>(t.first_called_for() - first->due()).count() << ' '
          << std::chrono::duration<double, std::milli>(t.first_called_at() - t.first_called_for()).count() << '\n';
  return static_cast<bool>(out.flush());
}

bool ledger::was_disturbed(const timer_record& t) const {
  constexpr auto catching_up = 2s;
  return std::any_of(outages_.begin(), outages_.end(), [&](const auto& o) {
    return t.first_called_at() >= o.first &&
           (o.second == wall_time::max() || t.first_called_for() <= o.second + catching_up);
  });
}

}  // namespace timer_load
