// A store whose benchmark is run: where its tasks are, and its ceiling.
#pragma once

#include "../support/figure_table.hpp"
#include "raw_store.hpp"

#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace tickwheel::bench {

class store_subject {
 public:
  virtual ~store_subject() = default;

  /// Returns a store on the tasks that all nodes share.
  virtual std::unique_ptr<durable::store> make_store() const = 0;
  /// Returns the ceiling, among as many pending tasks. Called by one process, when the store has them.
  virtual std::unique_ptr<raw_store> make_raw(std::size_t pending) const = 0;
  /// Opens a snapshot that keeps the server from cleaning up. It is open until the object is destroyed.
  virtual std::shared_ptr<void> hold_snapshot() const { return nullptr; }
  /// Lets the server of the store be as it is after some hours. Called by one process.
  virtual void settle() const {}
  /// Adds its settings.
  virtual void describe(figure_table&) const {}
};

}  // namespace tickwheel::bench
