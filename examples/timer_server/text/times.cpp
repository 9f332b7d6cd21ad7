#include "times.hpp"

#include "../../support/plain_duration.hpp"
#include "characters.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>

namespace timer_server {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// Takes text from its front.
class reader {
 public:
  explicit reader(std::string_view text) noexcept : rest_{text} {}

  bool is_empty() const noexcept { return rest_.empty(); }
  char front() const noexcept { return rest_.empty() ? '\0' : rest_.front(); }

  bool skip(char c) noexcept {
    if (front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  char take() noexcept {
    const char c = front();
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }

  // Exactly so many digits.
  std::optional<int> digits(std::size_t count) noexcept {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, count)) {
      if (!is_digit(c)) return std::nullopt;
      value = 10 * value + (c - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }

  // A number without a sign. No value: there is none, or it has more than 64 bits.
  std::optional<std::uint64_t> number() noexcept {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  // The digits after a decimal point, of a second. No value: there is none.
  std::optional<nanoseconds> fraction() noexcept {
    if (!is_digit(front())) return std::nullopt;
    std::int64_t value = 0;
    bool is_rounded_up = false;
    int places = 0;
    for (; is_digit(front()); ++places) {
      const int digit = take() - '0';
      if (places < 9)
        value = 10 * value + digit;
      else
        is_rounded_up = is_rounded_up || digit != 0;
    }
    for (; places < 9; ++places) value *= 10;
    return nanoseconds{value + (is_rounded_up ? 1 : 0)};
  }

 private:
  std::string_view rest_;
};

constexpr const char* no_moment = "is not a date and time by RFC 3339, such as 2030-01-31T09:30:00Z";
constexpr const char* no_offset = "has no offset from UTC: end it with Z, or with an offset such as +01:00";
constexpr const char* out_of_range = "must be after 1970-01-01 and before 2200-01-01";

const char* read_date(reader& text, std::chrono::sys_days& into) noexcept {
  const auto year = text.digits(4);
  if (!year || !text.skip('-')) return no_moment;
  const auto month = text.digits(2);
  if (!month || !text.skip('-')) return no_moment;
  const auto day = text.digits(2);
  if (!day) return no_moment;
  if (*month < 1 || *month > 12) return "has a month that does not exist: months are 01 to 12";
  const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return "has a day that its month does not have";
  into = date;
  return nullptr;
}

const char* read_time_of_day(reader& text, nanoseconds& into) noexcept {
  const auto hour = text.digits(2);
  if (!hour || !text.skip(':')) return no_moment;
  const auto minute = text.digits(2);
  if (!minute || !text.skip(':')) return no_moment;
  const auto second = text.digits(2);
  if (!second) return no_moment;
  if (*hour > 23) return "has an hour that does not exist: hours are 00 to 23";
  if (*minute > 59) return "has a minute that does not exist: minutes are 00 to 59";
  if (*second == 60) return "has a leap second, which the clock does not have: use the second before it, or after it";
  if (*second > 60) return "has a second that does not exist: seconds are 00 to 59";
  into = std::chrono::hours{*hour} + std::chrono::minutes{*minute} + std::chrono::seconds{*second};
  if (!text.skip('.')) return nullptr;
  const auto fraction = text.fraction();
  if (!fraction) return no_moment;
  into += *fraction;
  return nullptr;
}

const char* read_offset(reader& text, std::chrono::minutes& into) noexcept {
  const char sign = text.take();
  if (sign == 'Z' || sign == 'z') return nullptr;
  if (sign == '\0') return no_offset;
  if (sign != '+' && sign != '-') return no_moment;
  const auto hours = text.digits(2);
  if (!hours || !text.skip(':')) return no_moment;
  const auto minutes = text.digits(2);
  if (!minutes) return no_moment;
  if (*hours > 23 || *minutes > 59) return "has an offset that does not exist: offsets are at most 23:59";
  into = std::chrono::hours{*hours} + std::chrono::minutes{*minutes};
  if (sign == '-') into = -into;
  return nullptr;
}

constexpr const char* no_duration = "is not a duration, such as PT30M, P1DT12H, 30m or 500ms";
constexpr const char* too_long = "is longer than 36,500 days";

// Adds `count` times `unit`. Returns false if the sum is too long.
bool add(std::uint64_t count, nanoseconds unit, nanoseconds& sum) noexcept {
  const auto most = static_cast<std::uint64_t>((longest_duration - sum) / unit);
  if (count > most) return false;
  sum += static_cast<std::int64_t>(count) * unit;
  return true;
}

// The short form, such as "30m".
const char* read_short_duration(std::string_view text, nanoseconds& into) noexcept {
  std::chrono::milliseconds length{};
  switch (read_plain_duration(text, std::chrono::duration_cast<std::chrono::milliseconds>(longest_duration),
                              std::nullopt, length)) {
    case plain_duration_mistake::none:
      break;
    case plain_duration_mistake::no_duration:
      return no_duration;
    case plain_duration_mistake::no_unit:
      return "has no unit: ms, s, m, h or d";
    case plain_duration_mistake::too_long:
      return too_long;
  }
  into = length;
  return nullptr;
}

// A part of a duration by ISO 8601: its letter, and the place that it has in the order.
struct designator {
  char letter;
  nanoseconds one;
};
constexpr std::array date_parts{designator{'W', 7 * 24h}, designator{'D', 24h}};
constexpr std::array time_parts{designator{'H', 1h}, designator{'M', 1min}, designator{'S', 1s}};

// Reads parts in the order of `known`, each at most once, up to `T` or the end.
template <std::size_t N>
const char* read_parts(reader& text, const std::array<designator, N>& known, nanoseconds& sum, bool& has_any) noexcept {
  std::size_t next = 0;
  while (!text.is_empty() && text.front() != 'T') {
    if (!is_digit(text.front())) return no_duration;
    const auto count = text.number();
    if (!count) return too_long;
    std::optional<nanoseconds> fraction;
    if (text.skip('.') || text.skip(',')) {
      fraction = text.fraction();
      if (!fraction) return no_duration;
    }
    const char letter = text.take();
    if (N == date_parts.size() && (letter == 'Y' || letter == 'M'))
      return "has years or months, whose lengths differ: use days";
    while (next < N && known[next].letter != letter) ++next;
    if (next == N) return no_duration;
    if (fraction && letter != 'S') return "has a fraction: only seconds may have one";
    if (!add(*count, known[next].one, sum)) return too_long;
    if (fraction && !add(static_cast<std::uint64_t>(fraction->count()), nanoseconds{1}, sum)) return too_long;
    ++next;
    has_any = true;
  }
  return nullptr;
}

// The digits of a part of a second, without zeros at the end; empty for none.
std::string decimals(nanoseconds part) {
  if (part.count() == 0) return {};
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), ".%09lld", static_cast<long long>(part.count()));
  std::string digits{text.data()};
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

}  // namespace

const char* read_moment(std::string_view text, moment& into) noexcept {
  reader rest{text};
  std::chrono::sys_days date;
  nanoseconds time{};
  std::chrono::minutes offset{};
  if (const char* const problem = read_date(rest, date)) return problem;
  if (!rest.skip('T') && !rest.skip('t')) return no_moment;
  if (const char* const problem = read_time_of_day(rest, time)) return problem;
  if (const char* const problem = read_offset(rest, offset)) return problem;
  if (!rest.is_empty()) return no_moment;
  // a date of four digits does not fit into 64 bits of nanoseconds, but is easily too early or too late by a day
  if (date < std::chrono::floor<std::chrono::days>(earliest_moment) - std::chrono::days{1} ||
      date > std::chrono::floor<std::chrono::days>(latest_moment) + std::chrono::days{1})
    return out_of_range;
  const moment value = moment{date} + time - offset;
  if (value <= earliest_moment || value >= latest_moment) return out_of_range;
  into = value;
  return nullptr;
}

const char* read_duration(std::string_view text, nanoseconds& into) noexcept {
  reader rest{text};
  if (rest.front() == '-') return "is negative";
  if (!rest.skip('P')) return read_short_duration(text, into);
  nanoseconds sum{};
  bool has_any = false;
  if (const char* const problem = read_parts(rest, date_parts, sum, has_any)) return problem;
  if (rest.skip('T')) {
    has_any = false;
    if (const char* const problem = read_parts(rest, time_parts, sum, has_any)) return problem;
  }
  if (!has_any || !rest.is_empty()) return no_duration;
  into = sum;
  return nullptr;
}

std::string write_moment(moment when) {
  const auto second = std::chrono::floor<std::chrono::seconds>(when);
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{second - day};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()) % 10'000,
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text.data() + decimals(when - second) + 'Z';
}

std::string write_duration(nanoseconds length) {
  const auto days = std::chrono::floor<std::chrono::days>(length);
  const std::chrono::hh_mm_ss time{length - days};
  std::string text = "P";
  if (days.count() != 0) text += std::to_string(days.count()) + 'D';
  if (length == days && days.count() != 0) return text;
  text += 'T';
  if (time.hours().count() != 0) text += std::to_string(time.hours().count()) + 'H';
  if (time.minutes().count() != 0) text += std::to_string(time.minutes().count()) + 'M';
  const std::string part = decimals(time.subseconds());
  if (time.seconds().count() != 0 || !part.empty() || text.back() == 'T')
    text += std::to_string(time.seconds().count()) + part + 'S';
  return text;
}

}  // namespace timer_server
