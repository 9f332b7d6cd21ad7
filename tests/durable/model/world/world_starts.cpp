// Starts of tasks, and their ends.
#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace durable_model {

// The scheduler counts from the latest time that the store's clock may show: that of its last renewal, and then as if the answer had taken no
// time. Before the first renewal it counts from the earliest time.
span world::estimated(const node& n, nanos delay) const {
  const bool has_renewed = n.scheduler && n.scheduler->latest_store_now();
  const nanos least = facts_.now + least_offset_ - (has_renewed ? 0 : longest_delay_);
  const nanos greatest = facts_.now + greatest_offset_ + 2 * longest_delay_ + ms;  // a slow call may also meet a stall
  const auto later = [=](nanos from) { return delay < last_due - from ? from + std::max<nanos>(delay, 0) : last_due; };
  return {later(least), later(greatest)};
}

void world::on_start(int index, durable::execution run) {
  refresh();
  node& n = nodes_[static_cast<std::size_t>(index)];
  ++starts_;
  ++n.started;
  const std::string name{run.id()};
  const std::string payload{run.payload()};
  int id = -1;
  if (std::sscanf(name.c_str(), "t%d", &id) != 1 || id < 0 || static_cast<std::size_t>(id) >= ids_)
    return fail("a start of %s", name.c_str());
  note("%s starts %s token %llu attempt %u due %lld payload %.20s", n.name.c_str(), name.c_str(),
       static_cast<unsigned long long>(run.token()), run.attempt(), static_cast<long long>(count(run.due())),
       payload.c_str());
  if (is_asking_) fail("a start within a request");
  if (n.member < 0 || n.is_closing) return fail("a start of a closed scheduler");
  if (n.is_drained) fail("a start after drained");
  const auto i = static_cast<std::size_t>(id);
  if (!all_tokens_.insert(run.token()).second)
    fail("token %llu was given twice", static_cast<unsigned long long>(run.token()));
  if (run.token() <= last_token_[i] && nodes_.size() == 1) fail("a token does not grow");
  last_token_[i] = std::max(last_token_[i], run.token());
  if (run.attempt() > options_.max_attempts) fail("attempt %u of %u", run.attempt(), options_.max_attempts);
  const nanos due = count(run.due());
  fits(models_[i].on_start(n.member, run.token(), run.attempt(), due, payload), id, "started");
  const auto number = static_cast<std::size_t>(std::atoi(payload.c_str() + 1));
  const nanos period = payload.starts_with('c') ? 0 : facts_.contents.at(number).period;
  auto& tokens = tokens_[i];
  tokens.push_back(run.token());
  if (tokens.size() > 8) tokens.erase(tokens.begin());

  held h{std::move(run), id, index, n.member, period};
  if (!is_calm_) in_callable(n);
  if (is_calm_)
    end(std::move(h), 0);
  else if (const auto how = static_cast<unsigned>(decide_.below(12)); how < 6)
    end(std::move(h), how);
  else
    held_.push_back(std::move(h));
}

// 0: done, 1: retry_after, 2: fail, 3: bury, 4: destroyed, 5: done.
void world::end(held h, unsigned how) {
  node& n = nodes_[static_cast<std::size_t>(h.node)];
  const bool is_inert = n.member != h.member || n.is_closing;
  request r;
  r.token = h.run.token();
  r.member = h.member;
  const nanos delay = decide_.pick<nanos>({0, -1, ms, options_.poll.count(), hour, never});
  const bool is_last = h.run.attempt() >= options_.max_attempts;
  std::string error = decide_.one_in(5) ? "" : "e" + std::to_string(facts_.errors.size());
  if (how == 4) error = "no answer";
  switch (how) {
    case 1:
      r.how = ending::again;
      r.gives_back = true;
      r.at = estimated(n, delay);
      break;
    case 2:
    case 4: {
      r.how = !is_last ? ending::again : h.period != 0 ? ending::done : ending::dead;
      nanos backoff = options_.retry.base.count();
      for (unsigned i = 1; i < h.run.attempt(); ++i) backoff *= 2;
      backoff = std::min(backoff, options_.retry.cap.count());
      r.at = {estimated(n, 0).lo, estimated(n, backoff).hi};
      break;
    }
    case 3:
      r.how = ending::dead;
      break;
    default:
      r.how = ending::done;
  }
  if ((how == 2 || how == 3 || how == 4) && !error.empty()) {
    r.error = static_cast<int>(facts_.errors.size());
    facts_.errors.push_back(error);
  }
  const int number = ++last_number_;
  note("%d: %s ends t%d token %llu by %u%s", number, n.name.c_str(), h.id, static_cast<unsigned long long>(r.token),
       how, is_inert ? ", inert" : "");
  if (!is_inert) {
    r.number = number;
    r.what = verb::finish;
    r.is_over = how == 4;  // nobody is told
    models_[static_cast<std::size_t>(h.id)].ask(r);
    if (how != 4) open_[number] = {verb::finish, h.id, h.node, h.member, facts_.now, 0, false, {}, {}, 0};
  }
  const auto confirmed = [this, number, is_inert](durable::finish_result f) noexcept {
    if (is_ending_) return;
    if (is_inert) return fail("the end of an inert execution was confirmed");
    on_answer(number, of(f));
  };
  durable::execution run = std::move(h.run);
  switch (how) {
    case 1:
      return run.retry_after(duration(delay), confirmed);
    case 2:
      return run.fail(error, confirmed);
    case 3:
      return run.bury(error, confirmed);
    case 4:
      return;
    default:
      return run.done(confirmed);
  }
}

}  // namespace durable_model
