#include "orders.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace crash {

std::string_view next_word(std::string_view& rest) {
  const auto length = std::min(rest.find(' '), rest.size());
  const auto word = rest.substr(0, length);
  rest.remove_prefix(std::min(length + 1, rest.size()));
  return word;
}

std::uint64_t number_of(std::string_view word) {
  std::uint64_t n = 0;
  (void)std::from_chars(word.data(), word.data() + word.size(), n);
  return n;
}

std::int64_t true_wall() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns false if the chosen request is none.
bool orders::order_one() {
  if (tasks_.empty() || random_.chance(45)) {
    new_task();
    return true;
  }
  const std::size_t which = random_.chance(60)
                                ? tasks_.size() - 1 - random_.below(std::min<std::size_t>(tasks_.size(), 40))
                                : random_.below(tasks_.size());
  if (tasks_[which].open >= options_.most_open) return true;
  const std::uint64_t choice = random_.below(20);
  if (choice < 2) return false;
  if (choice < 6)
    schedule(which, "keep", 0);
  else if (choice < 9)
    schedule(which, "replace", 0);
  else if (choice < 14)
    simple("cancel", which);
  else if (choice < 15)
    simple("revive", which);
  else if (choice < 18)
    simple("get", which);
  else
    finish(which);
  return true;
}

std::size_t orders::add_task() {
  std::string id = "t" + std::to_string(made_++);
  // the longest id, and others that sort in unusual ways
  if (random_.chance(2)) id += "-" + std::string(200 - random_.below(100), 'x');
  if (random_.chance(5)) id = "\xC3\xA4" + id;
  by_id_[id] = tasks_.size();
  tasks_.push_back({.id = std::move(id)});
  return tasks_.size() - 1;
}

void orders::new_task() {
  if (made_ >= options_.tasks) return;
  const std::size_t which = add_task();
  const bool is_periodic = random_.chance(6);
  tasks_[which].is_periodic = is_periodic;
  tasks_[which].is_external = !is_periodic && options_.external != 0 && random_.chance(options_.external);
  schedule(which, random_.chance(90) ? "keep" : "replace",
           is_periodic ? 5 + static_cast<std::int64_t>(random_.below(60)) : 0);
}

void orders::schedule(std::size_t which, const char* conflict, std::int64_t period_ms) {
  static constexpr std::array periodic_plans{"d", "d", "D", "fd", "r", "f", "nD"};
  known_task& t = tasks_[which];
  if (t.is_periodic && period_ms == 0) period_ms = 10;
  const char* const plan = t.is_external   ? "x"
                           : t.is_periodic ? periodic_plans.at(random_.below(periodic_plans.size()))
                                           : options_.plans.at(random_.below(options_.plans.size()));
  std::int64_t delay = 0;
  switch (random_.below(5)) {
    case 0:
      delay = -static_cast<std::int64_t>(random_.below(1000));
      break;
    case 1:
    case 2:
      delay = static_cast<std::int64_t>(random_.below(50));
      break;
    default:
      delay = static_cast<std::int64_t>(random_.below(400));
  }
  put(which, conflict, period_ms, plan, delay, random_.chance(3) ? random_.below(20'000) : random_.below(40));
}

void orders::put(std::size_t which, const char* conflict, std::int64_t period_ms, const char* plan,
                 std::int64_t delay_ms, std::size_t payload) {
  put_at(which, conflict, period_ms, plan, due_in(delay_ms), payload);
}

std::int64_t orders::due_in(std::int64_t delay_ms) const {
  return (client_.now() / 1000 + delay_ms * 1000) * 1000;  // SQL has microseconds
}

void orders::put_at(std::size_t which, const char* conflict, std::int64_t period_ms, const char* plan, std::int64_t due,
                    std::size_t payload) {
  const std::string times = std::to_string(due) + " " + std::to_string(period_ms * millisecond) + " " + conflict;
  order("schedule", which, times,
        times + " " + std::to_string(last_order_ + 1) + "/" + plan + "/" + std::string(payload, 'p'));
}

// Of the last start that was seen, or of an earlier one.
void orders::finish(std::size_t which) {
  const known_task& t = tasks_[which];
  if (t.is_external) return;
  const std::uint64_t token = t.former_token != 0 && random_.chance(60) ? t.former_token : t.token;
  if (token != 0) finish(which, token);
}

void orders::finish(std::size_t which, std::uint64_t token) {
  order("finish", which, std::to_string(token), std::to_string(token));
}

void orders::simple(const char* what, std::size_t which, bool is_last) { order(what, which, {}, {}, is_last); }

// Writes the order into the journal, and sends it with `sent` instead of `written`.
void orders::order(const std::string& what, std::size_t which, const std::string& written, const std::string& sent,
                   bool is_last) {
  known_task& t = tasks_[which];
  const std::string number = std::to_string(++last_order_);
  const auto space = [](const std::string& s) { return s.empty() ? s : " " + s; };
  ++t.open;
  const unsigned process = client_.on_order("order " + number + " " + what + " " + t.id + space(written),
                                            what + " " + number + " " + t.id + space(sent) + "\n");
  open_[last_order_] = {which, is_last, process};
}

void orders::note(std::string_view what, std::string_view rest) {
  if (what == "entered") {
    ++answers_;
    const auto known = by_id_.find(std::string{next_word(rest)});
    if (known == by_id_.end()) return;
    known_task& t = tasks_[known->second];
    t.former_token = std::exchange(t.token, number_of(next_word(rest)));
  } else if (what == "ended") {
    ++answers_;
  } else if (what == "answered" || what == "rejected") {
    ++answers_;
    const auto open = open_.find(number_of(next_word(rest)));
    if (open == open_.end()) return;
    known_task& t = tasks_[open->second.task];
    if (t.open != 0) --t.open;
    if (open->second.is_last && what == "answered" && rest != "unknown" && rest != "unavailable") t.is_over = true;
    open_.erase(open);
  }
}

bool orders::settle() {
  bool has_open = false;
  for (std::size_t i = 0; i != tasks_.size(); ++i) {
    if (tasks_[i].open != 0) has_open = true;
    if (!tasks_[i].is_periodic || tasks_[i].is_over || tasks_[i].open != 0) continue;
    has_open = true;
    simple("get", i);
    simple("cancel", i, true);
  }
  return has_open;
}

void orders::settle_again() {
  for (known_task& t : tasks_) t.is_over = false;
}

void orders::end(unsigned process) {
  std::erase_if(open_, [&](const auto& order) {
    if (order.second.process != process) return false;
    known_task& t = tasks_[order.second.task];
    if (t.open != 0) --t.open;
    return true;
  });
}

}  // namespace crash
