// The rules for one row: how it changes its state, and when its time is over.
#pragma once

#include "facts.hpp"
#include "possible_row.hpp"

namespace durable_model {

/// Applies the rules of the contract to a row.
class row_rules {
 public:
  explicit row_rules(const facts& of) : facts_{of} {}

  /// Sets the new state of a row; `at` is the caller's if it is pending.
  void become(possible_row&, row_state, span clock) const;
  /// The current period is over.
  void next_period(possible_row&, span clock) const;
  /// An attempt has ended with its node. The next one follows, unless that was the last.
  void lose(possible_row&, span clock) const;
  /// Returns the latest time at which the row may be due and not after `now`.
  nanos latest_due(const possible_row&, nanos now) const;
  /// Returns true if the store may have forgotten the row, which is over.
  bool may_be_expired(const possible_row&, span clock) const;
  /// Returns true if the store may still know the row, which is over.
  bool may_be_known(const possible_row&, span clock) const;
  /// Returns true if a read may show the row like this. Null: not found.
  bool fits(const possible_row&, const shown_row*, span clock) const;

 private:
  const content& content_of(const possible_row& row) const {
    return facts_.contents[static_cast<std::size_t>(row.content)];
  }

  const facts& facts_;
};

}  // namespace durable_model
