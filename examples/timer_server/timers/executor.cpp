#include "executor.hpp"

#include "../text/percent_encoding.hpp"
#include "../text/times.hpp"
#include "timer_payload.hpp"

#include <functional>
#include <string_view>
#include <utility>

namespace timer_server {
namespace {

constexpr std::size_t most_delayed = 100'000;  // timers whose delays are remembered; one more ousts another

// The due time differs in each period. It or the payload differs if another timer took the place of this one. No id has a newline.
std::string key_of(const tickwheel::durable::execution& run) {
  return std::string{run.id()} + '\n' + std::to_string(run.due().time_since_epoch().count()) + '\n' +
         std::to_string(std::hash<std::string_view>{}(run.payload()));
}

}  // namespace

callback_request request_of(callback_request callback, const tickwheel::durable::execution& run) {
  const std::string id = percent_encode(run.id());
  const std::string due = write_moment(run.due());
  auto& headers = callback.headers;
  headers.emplace_back("Timer-Id", id);
  headers.emplace_back("Timer-Due", due);
  headers.emplace_back("Timer-Attempt", std::to_string(run.attempt()));
  headers.emplace_back("Timer-Token", std::to_string(run.token()));
  headers.emplace_back("Idempotency-Key", id + ':' + due);
  return callback;
}

void executor::start(tickwheel::durable::execution run) noexcept {
  if (gives_back_) return run.retry_after(std::chrono::seconds{0});
  auto callback = read_payload(run.payload());
  if (!callback) {
    const callback_outcome unreadable{.what = callback_outcome::kind::dead,
                                      .error = "the payload of the task is no callback"};
    on_last_(run, unreadable);
    return run.bury(unreadable.error);
  }
  callback_request request = request_of(std::move(*callback), run);
  const std::uint64_t token = run.token();
  running_.insert_or_assign(token, std::move(run));
  call_(std::move(request), [this, token](const callback_outcome& outcome) { end(token, outcome); });
}

void executor::give_back() noexcept {
  gives_back_ = true;
  for (auto& [token, run] : std::exchange(running_, {})) run.retry_after(std::chrono::seconds{0});
}

void executor::end(std::uint64_t token, const callback_outcome& outcome) noexcept {
  auto found = running_.extract(token);
  if (found.empty()) return;
  tickwheel::durable::execution& run = found.mapped();
  const std::string key = key_of(run);
  using kind = callback_outcome::kind;
  if (outcome.what == kind::not_called) return run.retry_after(delays_of(key).when_not_called.next());
  if (outcome.what == kind::asked_to_wait) {
    delays& all = delays_of(key);
    all.when_not_called.reset();
    if (++all.asked_for <= most_waits_in_a_row) return run.retry_after(outcome.delay);
  }
  delays_.erase(key);
  if (outcome.what == kind::done) return run.done();
  if (outcome.what == kind::failed) return fail(std::move(run), outcome);
  if (outcome.what == kind::asked_to_wait)
    return fail(std::move(run), {.what = kind::failed,
                                 .status = outcome.status,
                                 .error = "the callee asked to be called later too often: " + outcome.error});
  on_last_(run, outcome);
  run.bury(outcome.error);
}

void executor::fail(tickwheel::durable::execution run, const callback_outcome& outcome) {
  if (run.attempt() >= max_attempts_) on_last_(run, outcome);
  run.fail(outcome.error);
}

executor::delays& executor::delays_of(const std::string& key) {
  if (delays_.size() >= most_delayed && !delays_.contains(key)) delays_.erase(delays_.begin());
  return delays_[key];
}

}  // namespace timer_server
