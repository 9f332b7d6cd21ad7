#include "journal.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_set>

namespace crash {

namespace {

constexpr std::array states{"none", "pending", "running", "dead", "finished", "cancelled"};
constexpr std::array answers{"none",    "scheduled", "replaced",    "exists",    "ended",   "running",
                             "refused", "cancelled", "finished",    "not_found", "revived", "not_dead",
                             "stale",   "ok",        "unavailable", "unknown"};
constexpr std::array verbs{"keep", "replace", "cancel", "revive", "get", "done", "again", "fail", "bury"};

template <class Enum, std::size_t N>
std::optional<Enum> find(const std::array<const char*, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Takes the words of one line apart.
class words {
 public:
  explicit words(std::string_view line) noexcept : rest_{line} {}

  std::string_view next() noexcept {
    const auto end = std::min(rest_.find(' '), rest_.size());
    const auto word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    is_bad_ = is_bad_ || word.empty();
    return word;
  }
  template <class Number>
  Number number() noexcept {
    const auto word = next();
    Number n{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    is_bad_ = is_bad_ || error != std::errc{} || end != word.data() + word.size();
    return n;
  }
  template <class Enum, std::size_t N>
  Enum name(const std::array<const char*, N>& names) noexcept {
    const auto found = find<Enum>(names, next());
    is_bad_ = is_bad_ || !found;
    return found.value_or(Enum{});
  }
  seen_row row_after(state at) noexcept {
    seen_row row{.at = at};
    row.attempts = number<std::uint8_t>();
    row.lost = number<std::uint8_t>();
    row.cancelling = number<unsigned>() != 0;
    return row;
  }
  // @NUMBER
  unsigned process() noexcept {
    is_bad_ = is_bad_ || !rest_.starts_with('@');
    rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
    return number<unsigned>();
  }
  bool at_end() const noexcept { return rest_.empty(); }
  bool is_bad() const noexcept { return is_bad_; }

 private:
  std::string_view rest_;
  bool is_bad_ = false;
};

class reader {
 public:
  explicit reader(std::string_view text) {
    while (!text.empty() && out_.problem.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    out_.ids = ids_.size();
  }
  journal take() { return std::move(out_); }

 private:
  void line(std::string_view text) {
    const std::size_t at = out_.lines.size();
    out_.lines.push_back(text);
    words in{text};
    event e;
    e.line = at;
    bool is_event = true;
    if (text.starts_with('@')) {
      e.process = e.asked.process = in.process();
      is_event = of_child(in, e);
    } else if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      is_event = of_child(in, e);
    } else {
      is_event = of_parent(in, e);
    }
    if (in.is_bad()) out_.problem = "line " + std::to_string(at + 1) + " is invalid: " + std::string{text};
    if (is_event && out_.problem.empty()) out_.events.push_back(e);
  }

  bool of_parent(words& in, event& e) {
    const auto what = in.next();
    if (what == "config") {
      out_.max_attempts = in.number<unsigned>();
      out_.keep_finished = in.number<nanoseconds>();
      while (!in.at_end()) {
        const auto word = in.next();
        out_.has_doubts = out_.has_doubts || word == "doubts";
        if (word == "cluster") out_.shared = sharing::cluster;
        if (word == "sessions") out_.shared = sharing::sessions;
      }
      return false;
    }
    if (what == "order") {
      order(in);
      return false;
    }
    if (what == "start" || what == "end") {
      e.kind = what == "start" ? event_kind::start : event_kind::end;
      e.wall = in.number<nanoseconds>();
      if (e.kind == event_kind::end && !in.at_end()) (void)in.next();
      if (!in.at_end()) e.process = in.number<unsigned>();
      if (e.kind == event_kind::start) {
        last_numbers_[e.process] = 0;
        ++out_.starts;
      }
      return true;
    }
    e.wall = in.number<nanoseconds>();
    if (what == "trouble") {
      e.kind = event_kind::trouble;
      e.process = in.number<unsigned>();
      e.cause = in.next();
      return true;
    }
    if (what == "joined" || what == "buried") {
      e.kind = what == "joined" ? event_kind::joined : event_kind::buried;
      e.process = in.number<unsigned>();
      return true;
    }
    if (what == "clock") {
      e.kind = event_kind::clock;
      e.before = in.number<nanoseconds>();
      e.wall = in.number<nanoseconds>();
      return true;
    }
    if (what == "backup")
      e.kind = event_kind::backup;
    else if (what == "saved")
      e.kind = event_kind::saved;
    else if (what == "restored")
      e.kind = event_kind::restored;
    else if (what == "quiet")
      e.kind = event_kind::quiet;
    else
      out_.problem = "a line begins with " + std::string{what};
    return true;
  }

  void order(words& in) {
    request r;
    r.number = in.number<std::uint32_t>();
    const auto what = in.next();
    r.id = in.next();
    if (what == "schedule") {
      r.due = in.number<nanoseconds>();
      r.period = in.number<nanoseconds>();
      r.what = in.name<verb>(verbs);
      ids_.insert(r.id);
    } else if (what == "finish") {
      r.what = verb::done;
      r.token = in.number<std::uint64_t>();
    } else if (const auto known = find<verb>(verbs, what)) {
      r.what = *known;
    } else {
      out_.problem = "an order is unknown: " + std::string{what};
    }
    if (!orders_.emplace(r.number, r).second) out_.problem = "two orders have the number " + std::to_string(r.number);
  }

  request ordered(words& in, unsigned process) {
    const auto number = in.number<std::uint32_t>();
    const auto known = orders_.find(number);
    if (known != orders_.end()) {
      known->second.process = process;
      return known->second;
    }
    out_.problem = "nobody has ordered the request " + std::to_string(number);
    return {};
  }

  bool of_child(words& in, event& e) {
    const auto number = in.number<std::uint64_t>();
    std::uint64_t& last_number = last_numbers_[e.process];
    if (number != last_number + 1) {
      out_.problem = "a line of the child is missing between the numbers " + std::to_string(last_number) + " and " +
                     std::to_string(number);
      return false;
    }
    last_number = number;
    e.wall = in.number<nanoseconds>();
    const auto what = in.next();
    if (what == "ready") {
      e.kind = event_kind::ready;
      (void)in.number<int>();
    } else if (what == "closed") {
      // for the judge the next opening is another child
      e.kind = event_kind::end;
      out_.events.push_back(e);
      e.kind = event_kind::start;
    } else if (what == "clock") {
      e.kind = event_kind::clock;
      e.before = in.number<nanoseconds>();
      e.wall = in.number<nanoseconds>();
    } else if (what == "asked" || what == "rejected" || what == "answered") {
      e.asked = ordered(in, e.process);
      e.id = e.asked.id;
      if (what == "asked") {
        e.kind = event_kind::asked;
        if (!asked_.insert(e.asked.number).second) out_.problem = "an order was asked twice";
      } else if (what == "rejected") {
        e.kind = event_kind::rejected;
        (void)in.number<int>();
      } else {
        e.kind = event_kind::answered;
        e.result = in.name<answer>(answers);
        if (e.result == answer::ok) {
          const auto at = in.name<state>(states);
          e.row = in.row_after(at);
        }
      }
    } else if (what == "entered") {
      e.kind = event_kind::entered;
      e.id = in.next();
      e.token = in.number<std::uint64_t>();
      e.attempt = in.number<unsigned>();
      e.due = in.number<nanoseconds>();
      e.number = in.number<std::uint32_t>();
    } else if (what == "ending" || what == "ended") {
      e.id = e.asked.id = in.next();
      e.asked.token = in.number<std::uint64_t>();
      if (what == "ending") {
        e.kind = event_kind::asked;
        e.asked.what = in.name<verb>(verbs);
      } else {
        e.kind = event_kind::answered;
        e.asked.what = verb::done;
        e.result = in.name<answer>(answers);
      }
    } else if (what == "row") {
      e.kind = event_kind::row;
      const auto at = in.name<state>(states);
      e.id = in.next();
      e.row = in.row_after(at);
    } else if (what == "left" || what == "listed" || what == "drained" || what == "marked" || what == "external" ||
               what == "log" || what == "stalled" || what == "partitions") {
      return false;  // for the parent
    } else {
      out_.problem = "the child has written an unknown line: " + std::string{what};
    }
    return out_.problem.empty();
  }

  journal out_;
  std::unordered_map<unsigned, std::uint64_t> last_numbers_;  // of the lines of each process
  std::unordered_map<std::uint32_t, request> orders_;
  std::unordered_set<std::uint32_t> asked_;
  std::unordered_set<std::string_view> ids_;
};

}  // namespace

const char* to_string(state s) noexcept { return states.at(static_cast<std::size_t>(s)); }
const char* to_string(answer a) noexcept { return answers.at(static_cast<std::size_t>(a)); }
const char* to_string(verb v) noexcept { return verbs.at(static_cast<std::size_t>(v)); }

journal read_journal(std::string_view text) { return reader{text}.take(); }

}  // namespace crash
