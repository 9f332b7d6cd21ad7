// The calls of `timer_service::after`, which nobody else owns.
#pragma once

#include <boost/intrusive/list.hpp>

#include <utility>

namespace tickwheel::detail {

/// A call that waits for its time. It frees itself when it has run. Otherwise its list does.
class detached_call
    : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  detached_call() noexcept = default;
  detached_call(const detached_call&) = delete;
  detached_call& operator=(const detached_call&) = delete;
  virtual ~detached_call() = default;
};

/// The calls of one service that wait. *Thread safety:* the loop thread. *Complexity:* O(1), except the destructor.
class detached_calls {
 public:
  detached_calls() noexcept = default;
  /// Takes the calls of `from`.
  detached_calls(detached_calls&& from) noexcept { calls_.splice(calls_.end(), from.calls_); }
  detached_calls& operator=(detached_calls&&) = delete;
  /// Destroys the calls, which do not run. The destructors of their callables may do anything.
  ~detached_calls() {
    while (!calls_.empty()) {
      detached_call* const first = &calls_.front();
      calls_.pop_front();
      delete first;
    }
  }

  /// Takes ownership of `call`.
  void add(detached_call& call) noexcept { calls_.push_back(call); }

 private:
  boost::intrusive::list<detached_call, boost::intrusive::constant_time_size<false>> calls_;
};

}  // namespace tickwheel::detail
