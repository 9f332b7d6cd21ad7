// The figures: a line each as soon as it is measured, and JSON at the end.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

inline double seconds(std::chrono::nanoseconds d) { return std::chrono::duration<double>{d}.count(); }
inline double microseconds(std::chrono::nanoseconds d) { return std::chrono::duration<double, std::micro>{d}.count(); }

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class figure_table {
 public:
  explicit figure_table(std::size_t pending) : pending_{pending} {}

  /// Operations per second: the median of the rounds.
  void add_rate(const std::string& name, const std::vector<double>& per_second) {
    print_name(name);
    const auto [least, most] = std::minmax_element(per_second.begin(), per_second.end());
    std::printf("%10.0f per second   %.0f to %.0f\n", median(per_second), *least, *most);
    add({{"name", name}, {"per_second", median(per_second)}, {"least", *least}, {"most", *most}});
  }
  /// How often an operation beside its ceiling: the median of the rounds' ratios.
  void add_ratio(const std::string& name, const std::vector<double>& ours, const std::vector<double>& raw) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i != ours.size(); ++i) ratios.push_back(ours[i] / raw[i]);
    print_name(name + " / raw");
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("%10.2f              %.2f to %.2f\n", median(ratios), *least, *most);
    add({{"name", name + " / raw"}, {"ratio", median(ratios)}});
  }
  /// Sorts the times, of which there is at least one.
  void add_times(const std::string& name, std::vector<std::chrono::nanoseconds> times) {
    std::sort(times.begin(), times.end());
    add_times(name, times[times.size() / 2], times[times.size() * 99 / 100], times.back());
  }
  void add_times(const std::string& name, std::chrono::nanoseconds p50, std::chrono::nanoseconds p99,
                 std::chrono::nanoseconds longest) {
    print_name(name);
    std::printf("  p50 %9.0f us   p99 %9.0f us   longest %9.0f us\n", microseconds(p50), microseconds(p99),
                microseconds(longest));
    add({{"name", name},
         {"p50_us", microseconds(p50)},
         {"p99_us", microseconds(p99)},
         {"max_us", microseconds(longest)}});
  }
  /// One figure, and the value that it should not exceed. `pending`: if this workload has tasks of its own, their number.
  void add_value(const std::string& name, double value, const char* unit, double bound,
                 std::optional<std::size_t> pending = {}) {
    print_name(name, pending);
    std::printf("%10.2f %s   at most %.2f\n", value, unit, bound);
    add({{"name", name}, {"value", value}, {"unit", unit}, {"bound", bound}}, pending);
  }
  /// A line that is no figure.
  void add_note(const std::string& name, const std::string& text) {
    std::printf("%s: %s\n", name.c_str(), text.c_str());
    notes_[name] = text;
  }
  /// A row that another program has measured.
  void add_row(nlohmann::json row) {
    std::printf("%s\n", row.dump().c_str());
    add(std::move(row));
  }

  nlohmann::json json() const { return {{"notes", notes_}, {"rows", rows_}}; }

 private:
  void print_name(const std::string& name, std::optional<std::size_t> pending = {}) const {
    std::printf("%-28s %9zu pending", name.c_str(), pending.value_or(pending_));
  }
  void add(nlohmann::json row, std::optional<std::size_t> pending = {}) {
    row["pending"] = pending.value_or(pending_);
    rows_.push_back(std::move(row));
  }

  std::size_t pending_;
  nlohmann::json notes_ = nlohmann::json::object();
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace tickwheel::bench
