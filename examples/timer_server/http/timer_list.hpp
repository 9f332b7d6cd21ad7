// A page of GET /v1/timers.
#pragma once

#include "http_answer.hpp"

#include <tickwheel/durable/durable.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace timer_server {

/// The timers of one state, by their ids.
struct list_request {
  tickwheel::durable::task_state state{};
  std::string after;      // ids are greater than this
  std::size_t limit = 0;  // at most so many timers
};

/// Reads pages. A page is read from the store in steps and ends before its limit when it is large, so that neither timers with large
/// bodies nor many clients at once make it take much memory or time.
///
/// *Lifetime:* the scheduler outlives it. An answer may come after it is gone.
class timer_list {
 public:
  /// A page ends with the timer by which its text gets so long.
  static constexpr std::size_t most_text = std::size_t{256} * 1024;
  /// Pages that are read at once. One more is answered 503.
  static constexpr std::size_t most_pages = 16;

  explicit timer_list(tickwheel::durable::scheduler& scheduler)
      : scheduler_{scheduler}, pages_{std::make_shared<std::size_t>(0)} {}

  /// Answers with a page, or that the store cannot be reached.
  void ask(list_request, const answer_function&);

 private:
  class page;
  tickwheel::durable::scheduler& scheduler_;
  std::shared_ptr<std::size_t> pages_;  // that are being read
};

}  // namespace timer_server
