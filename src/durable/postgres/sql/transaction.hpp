// The statements that a link sends together, and their results.
#pragma once

#include "failure.hpp"
#include "parameters.hpp"
#include "rows.hpp"
#include "statements.hpp"

#include <cstddef>
#include <vector>

namespace tickwheel::durable::postgres {

/// Statements up to a sync of the pipeline. The server carries out all of them or none.
class transaction {
 public:
  struct step {
    statement what{};
    parameters values;
  };

  void clear() noexcept {
    steps_.clear();
    results_.clear();
    error_ = {};
  }
  /// Adds a statement. Returns its parameters, to be filled.
  parameters& add(statement what) { return steps_.emplace_back(step{what, {}}).values; }

  const std::vector<step>& steps() const noexcept { return steps_; }
  /// Returns the rows of a statement. Requires: all was committed.
  rows of(std::size_t statement_index) const noexcept { return rows{results_[statement_index]}; }
  /// Set if nothing was committed.
  const failure& error() const noexcept { return error_; }

  /// The link: a statement has ended.
  void add(result r) { results_.push_back(std::move(r)); }
  void fail(failure f) {
    if (!error_.is_set()) error_ = std::move(f);
  }
  std::size_t results() const noexcept { return results_.size(); }

 private:
  std::vector<step> steps_;
  std::vector<result> results_;
  failure error_;
};

}  // namespace tickwheel::durable::postgres
