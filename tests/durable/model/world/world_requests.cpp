// Requests to schedulers.
#include "world.hpp"

#include <uv.h>

#include <algorithm>
#include <utility>

namespace durable_model {

int world::request_error(const node& n, std::size_t bytes) const {
  if (n.member < 0 || n.is_closing) return UV_ECANCELED;
  if (n.requests >= n.options.max_requests) return UV_EAGAIN;
  if (n.bytes == 0) return 0;
  const std::size_t left = n.options.max_request_bytes - std::min(n.bytes, n.options.max_request_bytes);
  return bytes > left ? UV_EAGAIN : 0;
}

int world::number_of(node& n, verb what, int id, std::size_t bytes, request r) {
  const int number = ++last_number_;
  r.number = number;
  r.what = what;
  r.member = n.member;
  open_[number] = {what, id, static_cast<int>(&n - nodes_.data()), n.member, facts_.now, bytes, true, {}, {}, 0};
  if (id >= 0) models_[static_cast<std::size_t>(id)].ask(r);
  ++n.requests;
  n.bytes += bytes;
  return number;
}

// Calls the scheduler, and compares the code that it returns.
template <class Call>
int world::accept(node& n, verb what, int id, std::size_t bytes, int expected, Call&& call) {
  if (n.scheduler == nullptr) return UV_ECANCELED;
  is_asking_ = true;
  const int error = call();
  is_asking_ = false;
  if (error != expected)
    fail("%s: verb %d of t%d with %zu bytes returned %d, expected %d", n.name.c_str(), static_cast<int>(what), id,
         bytes, error, expected);
  return error;
}

nanos world::any_delay() {
  const nanos poll = options_.poll.count();
  const nanos window = options_.window.count();
  switch (decide_.below(12)) {
    case 0:
      return -hour;
    case 1:
      return -1;
    case 2:
      return 0;
    case 3:
      return 1;
    case 4:
      return ms;
    case 5:
      return poll;
    case 6:
      return window + decide_.pick<nanos>({-1, 0, 1, ms});
    case 7:
      return 2 * window;
    case 8:
      return decide_.one_in(4) ? hour : poll / 2;
    default:
      return static_cast<nanos>(decide_.up_to(static_cast<std::uint64_t>(2 * poll)));
  }
}

content world::any_content() {
  content c;
  c.due = facts_.clock.at(facts_.now) + any_delay();
  if (decide_.one_in(50)) c.due = decide_.pick<nanos>({1, last_due, last_due - hour});
  const nanos shortest = is_brief_ ? options_.poll.count() : polls_seldom_ ? 20 * ms : ms;
  if (decide_.one_in(4)) c.period = decide_.pick<nanos>({shortest, 10 * shortest, options_.poll.count() * 2, hour});
  c.is_refused = faults_ != nullptr && decide_.one_in(25);
  c.payload = (c.is_refused ? "R" : "p") + std::to_string(facts_.contents.size());
  if (decide_.one_in(10)) c.payload.resize(decide_.pick<std::size_t>({options_.max_payload, 32}), '.');
  return c;
}

void world::schedule(node& n, durable::on_conflict conflict) { schedule(n, any_id(), conflict, any_content()); }

void world::schedule(node& n, int id, durable::on_conflict conflict, content what) {
  const std::string name = name_of_id(id);
  const std::size_t bytes = name.size() + what.payload.size();
  const int expected = request_error(n, bytes);
  const bool is_keep = conflict == durable::on_conflict::keep;
  const verb v = is_keep ? verb::keep : verb::replace;
  if (n.scheduler == nullptr) return;
  int number = 0;
  if (expected == 0) {
    facts_.contents.push_back(what);
    request r;
    r.content = static_cast<int>(facts_.contents.size()) - 1;
    number = number_of(n, v, id, bytes, r);
  }
  note("%d: %s %s %s due %lld period %lld payload %.20s", number, n.name.c_str(), is_keep ? "keep" : "replace",
       name.c_str(), static_cast<long long>(what.due), static_cast<long long>(what.period), what.payload.c_str());
  accept(n, v, id, bytes, expected, [&] {
    return n.scheduler->schedule(
        {name, time_of(what.due), what.payload, duration(what.period)},
        [this, number](durable::schedule_result r) noexcept { on_answer(number, of(r)); }, conflict);
  });
}

// More than the library sends or reads at once: 1,000 elements, or 4 MiB.
void world::schedule_many(node& n) {
  const auto many = decide_.pick<std::size_t>({999, 1000, 1001, 2100});
  const auto bytes = decide_.pick<std::size_t>({8, 8, 4200, 65'536});
  const nanos delay = any_delay();
  const auto step = decide_.pick<nanos>({0, 1, 100 * us});
  for (std::size_t i = 0; i != (bytes > 8 ? std::min<std::size_t>(many, 1001) : many); ++i) {
    content c;
    c.due = facts_.clock.at(facts_.now) + delay + static_cast<nanos>(i) * step;
    c.payload = "c" + std::to_string(i);  // others begin with their number in `facts`
    c.payload.resize(bytes, '.');
    schedule(n, static_cast<int>(i), durable::on_conflict::keep, std::move(c));
  }
}

void world::ask_invalid(node& n) {
  if (n.scheduler == nullptr) return;
  const int expected = n.member < 0 || n.is_closing ? UV_ECANCELED : UV_EINVAL;
  const auto never_called = [this](auto&&...) noexcept { fail("an invalid request was answered"); };
  durable::task t{"t1", time_of(facts_.clock.at(facts_.now)), {}, {}};
  int error = 0;
  switch (decide_.below(7)) {
    case 0:
      t.due = time_of(last_due + 1);
      break;
    case 1:
      t.due = time_of(0);
      break;
    case 2:
      t.period = duration(ms - 1);
      break;
    case 3:
      t.payload.resize(options_.max_payload + 1);
      break;
    case 4:
      t.id = decide_.one_in(2) ? "" : "a\n";
      break;
    case 5:
      error = n.scheduler->cancel("", never_called);
      if (error != expected) fail("a cancel without an id returned %d", error);
      return;
    default:
      error = n.scheduler->list(durable::task_state::pending, {}, decide_.one_in(2) ? 0 : 10'001, never_called);
      if (error != expected) fail("a list with an invalid limit returned %d", error);
      return;
  }
  error = n.scheduler->schedule(std::move(t), never_called);
  if (error != expected) fail("an invalid task returned %d", error);
}

void world::cancel(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::cancel, id, name.size(), {}) : 0;
  note("%d: %s cancel %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::cancel, id, name.size(), expected, [&] {
    return n.scheduler->cancel(name, [this, number](durable::cancel_result r) noexcept { on_answer(number, of(r)); });
  });
}

void world::revive(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::revive, id, name.size(), {}) : 0;
  note("%d: %s revive %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::revive, id, name.size(), expected, [&] {
    return n.scheduler->revive(name, [this, number](durable::revive_result r) noexcept { on_answer(number, of(r)); });
  });
}

void world::get(node& n, int id) {
  if (n.scheduler == nullptr) return;
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  const int number = expected == 0 ? number_of(n, verb::get, id, name.size(), {}) : 0;
  note("%d: %s get %s", number, n.name.c_str(), name.c_str());
  accept(n, verb::get, id, name.size(), expected, [&] {
    return n.scheduler->get(
        name, [this, number](durable::read_result r, durable::task_info i) noexcept { on_read(number, r, &i); });
  });
}

void world::list(node& n) {
  if (n.scheduler == nullptr) return;
  const auto state = static_cast<row_state>(1 + decide_.below(5));
  const std::string after = decide_.one_in(2) ? "" : name_of_id(any_id());
  const auto limit = decide_.pick<std::size_t>({1, 3, 10'000});
  const int expected = request_error(n, after.size());
  const int number = expected == 0 ? number_of(n, verb::look, -1, after.size(), {}) : 0;
  if (expected == 0) {
    open_request& r = open_[number];
    r.state = state;
    r.after = after;
    r.limit = limit;
    request look;
    look.number = number;
    look.what = verb::look;
    look.member = n.member;
    for (task_model& m : models_) m.ask(look);
  }
  note("%d: %s list state %d after %s limit %zu", number, n.name.c_str(), static_cast<int>(state), after.c_str(),
       limit);
  accept(n, verb::look, -1, after.size(), expected, [&] {
    return n.scheduler->list(to_library(state), after, limit,
                             [this, number](durable::read_result r, std::vector<durable::task_info> all) noexcept {
                               on_listed(number, r, all);
                             });
  });
}

// With a token of this task, of another one, or with none that was given.
void world::finish_by_token(node& n, int id) {
  if (n.scheduler == nullptr) return;
  std::uint64_t token = decide_.one_in(8) ? 0 : 12345;
  const auto& known = tokens_[static_cast<std::size_t>(id)];
  const auto& others = tokens_[decide_.below(ids_)];
  if (!known.empty() && decide_.below(8) != 0)
    token = decide_.one_in(3) ? known[decide_.below(known.size())] : known.back();
  else if (!others.empty())
    token = others.back();
  const std::string name = name_of_id(id);
  const int expected = request_error(n, name.size());
  request r;
  r.token = token;
  r.how = ending::done;
  const int number = expected == 0 ? number_of(n, verb::finish, id, name.size(), r) : 0;
  note("%d: %s finish %s token %llu", number, n.name.c_str(), name.c_str(), static_cast<unsigned long long>(token));
  accept(n, verb::finish, id, name.size(), expected, [&] {
    return n.scheduler->finish(name, token,
                               [this, number](durable::finish_result f) noexcept { on_answer(number, of(f)); });
  });
}

}  // namespace durable_model
