// Answers of the store that have arrived. The engine takes them in piece by piece, so that it does not hold the loop for long.
#pragma once

#include <boost/intrusive/list.hpp>

namespace tickwheel::durable::detail {

/// The answer of a batch.
class arrival : public boost::intrusive::list_base_hook<> {
 public:
  /// Takes in one element of the batch. Returns false once nothing is left: its call may then be sent again.
  virtual bool take_in_one() noexcept = 0;

 protected:
  ~arrival() = default;
};

/// Answers in the order in which they arrived.
///
/// *Complexity:* O(1) per element.
class arrivals {
 public:
  void push(arrival& answered) noexcept { list_.push_back(answered); }
  bool empty() const noexcept { return list_.empty(); }

  /// Takes in one element of the oldest answer. Requires: there is one.
  void take_in_one() noexcept {
    arrival& oldest = list_.front();
    if (!oldest.take_in_one()) list_.erase(list_.iterator_to(oldest));
  }
  void take_in_all() noexcept {
    while (!empty()) take_in_one();
  }

 private:
  boost::intrusive::list<arrival> list_;
};

}  // namespace tickwheel::durable::detail
