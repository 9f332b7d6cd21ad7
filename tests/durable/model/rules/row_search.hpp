// The search for the rows that a task may have by now.
#pragma once

#include "facts.hpp"
#include "model_request.hpp"
#include "possible_row.hpp"
#include "row_rules.hpp"

#include <functional>
#include <utility>
#include <vector>

namespace durable_model {

using row_list = std::vector<possible_row>;

/// A start whose task may have been recovered before its handler was called.
struct late_start {
  int holder = 0;
  unsigned attempt = 0;
  int content = 0;
  bool operator==(const late_start&) const = default;
};

/// Begins with the rows that were possible, and follows each change that may have happened unseen. A row that `is_goal` accepts is a
/// result, and its changes are not followed.
class row_search {
 public:
  using predicate = std::function<bool(const possible_row&)>;

  row_search(const facts& of, const std::vector<request>& open, predicate is_goal = nullptr)
      : facts_{of}, rules_{of}, requests_{open}, is_goal_{std::move(is_goal)} {}

  void run(const row_list& from);

  /// Adds a row to a list. Rows that differ only in times become one row with wider times.
  static void merge(row_list&, possible_row&&, std::vector<bool>* is_done = nullptr);

  row_list all;  // without the goals
  row_list goals;
  std::vector<late_start> late;

 private:
  void add(possible_row&&);
  void follow(const possible_row&);
  void follow_requests(const possible_row&);
  void begin(const possible_row&, span clock);
  void lose(const possible_row&, span clock);
  void apply(const possible_row&, const request&);
  void end_start(possible_row, const request&, span clock);
  span clock_since(nanos from) const { return facts_.clock.range(from, facts_.now); }

  const facts& facts_;
  const row_rules rules_;
  const std::vector<request>& requests_;
  const predicate is_goal_;
  std::vector<bool> is_done_;  // of `all`
};

}  // namespace durable_model
