#include "timer_list.hpp"

#include "../timers/timer_document.hpp"
#include "store_answers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace timer_server {
namespace {

namespace durable = tickwheel::durable;

constexpr std::size_t first_step = 16;
constexpr std::size_t payload_of_a_step = 1 << 20;  // roughly, in bytes

}  // namespace

/// *Lifetime:* kept by the read that is under way.
class timer_list::page : public std::enable_shared_from_this<page> {
 public:
  page(durable::scheduler& scheduler, list_request what, answer_function answer, std::shared_ptr<std::size_t> pages)
      : scheduler_{scheduler}, left_{std::move(what)}, answer_{std::move(answer)}, pages_{std::move(pages)} {
    ++*pages_;
  }
  ~page() { --*pages_; }
  page(const page&) = delete;
  page& operator=(const page&) = delete;

  void read_next() {
    const std::size_t asked = std::min(step_, left_.limit);
    const auto take = [self = shared_from_this(), asked](durable::read_result result,
                                                         const std::vector<durable::task_info>& timers) noexcept {
      result == durable::read_result::ok ? self->take(timers, asked) : self->answer_(store_unavailable());
    };
    if (const int error = scheduler_.list(left_.state, left_.after, asked, take)) answer_(not_taken(error));
  }

 private:
  void take(const std::vector<durable::task_info>& timers, std::size_t asked) {
    std::size_t payload = 0;
    for (const durable::task_info& timer : timers) {
      if (text_.size() >= most_text) return finish(true);
      if (!text_.empty()) text_ += ',';
      text_ += text_of(document_of(timer));
      text_.pop_back();  // the newline
      left_.after = timer.what.id;
      --left_.limit;
      payload += timer.what.payload.size();
    }
    if (timers.size() < asked) return finish(false);
    if (left_.limit == 0 || text_.size() >= most_text) return finish(true);
    step_ = std::clamp<std::size_t>(payload_of_a_step * timers.size() / std::max<std::size_t>(payload, 1), 1,
                                    4 * timers.size());
    read_next();
  }

  void finish(bool has_more) {
    http_answer answer{.content_type = "application/json", .body = R"({"timers":[)" + text_ + ']'};
    if (has_more)
      answer.body += R"(,"next_after":)" +
                     nlohmann::json(left_.after).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    answer.body += "}\n";
    answer_(answer);
  }

  durable::scheduler& scheduler_;
  list_request left_;  // of the page
  answer_function answer_;
  std::shared_ptr<std::size_t> pages_;
  std::size_t step_ = first_step;  // timers that are read at once
  std::string text_;
};

void timer_list::ask(list_request what, const answer_function& answer) {
  if (*pages_ >= most_pages) return answer(unavailable("Too many pages are read at once."));
  std::make_shared<page>(scheduler_, std::move(what), answer, pages_)->read_next();
}

}  // namespace timer_server
