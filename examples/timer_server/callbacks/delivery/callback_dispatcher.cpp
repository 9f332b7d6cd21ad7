#include "callback_dispatcher.hpp"

#include <utility>

namespace timer_server {

callback_dispatcher::callback_dispatcher(tickwheel::event_loop& loop, callback_options options)
    : loop_{loop},
      options_{std::move(options)},
      resolver_{std::make_shared<host_resolver>(loop.uv(), loop.timers(), options_.allowed)},
      answer_later_{loop.timers(), *this} {}

void callback_dispatcher::call(callback_request request, callback::answer answered) {
  ++counted_.calls;
  callback_url url;
  const char* problem = parse_url(request.url, url);
  if (problem == nullptr) problem = problem_of_request(request);
  if (problem != nullptr) {
    ended(std::move(answered), dead_with(problem));
  } else if (closed_) {
    ended(std::move(answered), failed_with("the caller is closed"));
  } else if (waiting_ >= options_.max_waiting) {
    ended(std::move(answered), not_called_with("too many calls wait for a connection"));
  } else {
    std::string key = url.host + ' ' + std::to_string(url.port);
    auto& host = hosts_[key];
    if (host == nullptr) host = std::make_unique<host_pool>(*this, std::move(key));
    if (host->is_overrun()) {
      ended(std::move(answered), not_called_with("too many calls of this host wait for a connection"));
    } else {
      auto* const c = new callback{*host, std::move(request), std::move(url), std::move(answered)};
      calls_.push_back(*c);
      c->wait();
      start_waiting();
    }
  }
  answer_later();
}

void callback_dispatcher::close() noexcept {
  const turn keep{*this};
  if (std::exchange(closed_, true)) return;
  resolver_->close();
  while (!calls_.empty()) calls_.front().end(failed_with("the caller was closed"));
  while (!connections_.empty()) connections_.front().close();
}

void callback_dispatcher::answer_all() noexcept {
  while (!ended_.empty()) answer_some(ended_.size());
  answer_later_.cancel();
}

callback_stats callback_dispatcher::stats() const noexcept {
  callback_stats s = counted_;
  s.resolutions = resolver_->resolutions();
  s.waiting = waiting_;
  s.running = running_;
  s.open_connections = connections_.size();
  s.idle_connections = idle_.size();
  s.hosts = hosts_.size();
  if (!calls_.empty()) s.oldest = loop_.timers().read_clock() - calls_.front().began();
  return s;
}

void callback_dispatcher::ended(callback::answer answered, callback_outcome outcome) noexcept {
  switch (outcome.what) {
    case callback_outcome::kind::done:
      ++counted_.done;
      break;
    case callback_outcome::kind::asked_to_wait:
      ++counted_.asked_to_wait;
      break;
    case callback_outcome::kind::not_called:
      ++counted_.not_called;
      break;
    case callback_outcome::kind::failed:
      ++counted_.failed;
      break;
    case callback_outcome::kind::dead:
      ++counted_.dead;
      break;
  }
  ended_.push_back({std::move(answered), std::move(outcome)});
}

void callback_dispatcher::end_turn() noexcept {
  start_waiting();
  while (!unused_.empty()) {
    const std::string key = unused_.front().key();
    hosts_.erase(key);
  }
  answer_some(ended_.size());
  answer_later();
}

// Hosts take turns: one that has started a call goes behind the others.
void callback_dispatcher::start_waiting() noexcept {
  for (;;) {
    if (!ready_.empty()) {
      ready_.front().start_next();
    } else if (!in_need_.empty() && (has_place() || !idle_.empty())) {
      if (!has_place()) idle_.front().close();  // its host has no use for it now
      in_need_.front().start_next();
    } else {
      return;
    }
  }
}

// No more than there are now, so that an answer that calls again does not keep the loop from its other work.
void callback_dispatcher::answer_some(std::size_t most) noexcept {
  for (; most != 0 && !ended_.empty(); --most) {
    const ended_call next = std::move(ended_.front());
    ended_.pop_front();
    next.answered(next.outcome);
  }
}

// If it cannot be armed, the answers are given at the end of the next turn, or by the destructor of the caller.
void callback_dispatcher::answer_later() noexcept {
  if (!ended_.empty() && !answer_later_.armed()) (void)answer_later_.arm(std::chrono::seconds{0});
}

void callback_dispatcher::on_answer_later() noexcept { const turn answers{*this}; }

// --- the caller ------------------------------------------------------------------------------------------------------

const char* callback_options::problem() const noexcept {
  if (attempt_timeout.count() <= 0) return "callback_options::attempt_timeout is not positive";
  if (wait_timeout.count() <= 0) return "callback_options::wait_timeout is not positive";
  if (total_timeout < attempt_timeout) return "callback_options::total_timeout is below attempt_timeout";
  if (idle_timeout.count() <= 0) return "callback_options::idle_timeout is not positive";
  if (connections_per_host == 0) return "callback_options::connections_per_host is 0";
  if (connections == 0) return "callback_options::connections is 0";
  if (max_waiting == 0) return "callback_options::max_waiting is 0";
  if (max_header_bytes < 256 || max_header_bytes > (1U << 20U))
    return "callback_options::max_header_bytes is not within 256..1048576";
  return nullptr;
}

callback_caller::callback_caller(tickwheel::event_loop& loop, callback_options options)
    : dispatcher_{std::make_shared<callback_dispatcher>(loop, std::move(options))} {}

callback_caller::~callback_caller() {
  dispatcher_->close();
  dispatcher_->answer_all();
}

void callback_caller::call(callback_request request, std::function<void(const callback_outcome&)> answered) {
  dispatcher_->call(std::move(request), std::move(answered));
}

void callback_caller::close() noexcept { dispatcher_->close(); }

callback_stats callback_caller::stats() const noexcept { return dispatcher_->stats(); }

}  // namespace timer_server
