#include "request_desk.hpp"

#include <tickwheel/net/deadline.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace tickwheel::durable::detail {

void request::on_expired(int) noexcept { owner.on_expired(*this); }
void put_request::enqueue() noexcept { owner.puts.push(*this); }
void cancel_request::enqueue() noexcept { owner.cancels.push(*this); }
void revive_request::enqueue() noexcept { owner.revives.push(*this); }
void get_request::enqueue() noexcept { owner.gets.push(*this); }
void list_request::enqueue() noexcept { owner.lists.push(*this); }
void finish_request::enqueue() noexcept { owner.finishes.push(*this); }
void put_request::apply() noexcept { owner.on_put(*this); }
void cancel_request::apply() noexcept { owner.on_cancelled(*this); }
void revive_request::apply() noexcept { owner.on_revived(*this); }
void finish_request::apply() noexcept { owner.on_finished(*this); }

request_desk::request_desk(timer_service& timers, const scheduler_options& options, outage_pause& outage,
                           outage_pause& left, client& of) noexcept
    : timers_{timers}, options_{options}, outage_{outage}, left_pause_{left}, client_{of} {}

int request_desk::open(store& tasks) noexcept {
  if (const int error = calls_.open(options_.max_requests)) return error;
  tasks_ = &tasks;
  is_closing_ = false;
  return 0;
}

void request_desk::close(request_order& leaving) noexcept {
  calls_.close();
  answered_.clear();
  turns_.clear();
  open_requests_ = request_bytes_ = 0;
  for (request& r : requests_) {
    if (r.is_answered) continue;
    r.give_up(r.at == request::stage::sent);
    r.is_answered = true;
    counts_.unavailable += !r.is_repeated();
  }
  leaving.swap(requests_);
}

void request_desk::deliver_all(request_order& leaving) noexcept {
  while (!leaving.empty()) {
    const std::unique_ptr<request> r{&leaving.front()};
    r->in_order.unlink();
    if (!r->is_delivered) r->deliver();
  }
}

void request_desk::drop_all(request_order& leaving) noexcept {
  leaving.clear_and_dispose([](request* r) { delete r; });
}

int request_desk::admit(std::size_t request_bytes) const noexcept {
  if (open_requests_ >= options_.max_requests) return UV_EAGAIN;
  if (request_bytes_ == 0) return 0;  // a single request always fits
  const std::size_t left = options_.max_request_bytes - std::min(request_bytes_, options_.max_request_bytes);
  return request_bytes <= left ? 0 : UV_EAGAIN;
}

template <class R>
std::unique_ptr<R> request_desk::make(std::size_t request_bytes) {
  return std::make_unique<R>(timers_, *this, request_bytes);
}

template <class R>
int request_desk::accept(std::unique_ptr<R> r, const std::string& id) {
  if (!r->done) return UV_ENOMEM;
  if (!r->is_repeated()) {
    if (const int error =
            calls_.start(*r, ++last_call_, deadline::after(options_.request_timeout, timers_.read_clock())))
      return error == UV_ENOBUFS || error == UV_ETIMEDOUT ? UV_EAGAIN : error;
  }
  id_turn* const turn = id.empty() ? nullptr : &turn_of(id);
  ++open_requests_;
  request_bytes_ += r->bytes;
  take_turn(*r.release(), turn);
  return 0;
}

id_turn& request_desk::turn_of(const std::string& id) {
  const auto place = turns_.try_emplace(id).first;
  place->second.id = &place->first;
  return place->second;
}

// A request waits for the earlier ones of its id. Those without an id need not.
void request_desk::take_turn(request& r, id_turn* turn) noexcept {
  requests_.push_back(r);
  r.turn = turn;
  if (turn != nullptr && turn->head != nullptr) {
    turn->waiting.push_back(r);
    return;
  }
  if (turn != nullptr) turn->head = &r;
  r.at = request::stage::queued;
  r.enqueue();
  client_.wake();
}

// Lets the next request of the id go.
void request_desk::end_turn(request& r) noexcept {
  id_turn* const turn = std::exchange(r.turn, nullptr);
  if (turn == nullptr || turn->head != &r) return;
  if (turn->waiting.empty()) {
    turns_.erase(turns_.find(*turn->id));
    return;
  }
  request& next = turn->waiting.front();
  turn->waiting.pop_front();
  turn->head = &next;
  next.at = request::stage::queued;
  next.enqueue();
}

void request_desk::on_expired(request& r) noexcept {
  if (r.is_answered) return;  // the answer has arrived, and is taken in soon
  const bool is_sent = r.at == request::stage::sent;
  r.give_up(is_sent);
  ++counts_.unavailable;
  if (!is_sent) {
    if (r.was_left) left_pause_.on_answer();
    r.in_queue.unlink();
    r.at = request::stage::ended;
    end_turn(r);
  }
  answer(r);
  client_.wake();
}

void request_desk::answer(request& r) noexcept {
  r.is_answered = true;
  r.cancel();
  answered_.push_back(r);
}

void request_desk::deliver_one() noexcept {
  request& r = answered_.front();
  answered_.pop_front();
  r.is_delivered = true;
  if (r.is_counted) {
    --open_requests_;
    request_bytes_ -= r.bytes;
  }
  // One that has expired is still with the store. Otherwise it ends here, also if the callable closes the scheduler.
  if (r.at != request::stage::ended) return r.deliver();
  const std::unique_ptr<request> last{&r};
  r.in_order.unlink();
  r.deliver();
}

void request_desk::on_ended(request& r, store_status status) noexcept {
  const bool is_ok = status == store_status::ok;
  if (!is_ok && r.is_repeated() && !is_closing_) {
    r.at = request::stage::queued;
    r.enqueue();
    return;
  }
  if (is_ok) r.apply();
  if (is_ok && r.was_left) left_pause_.on_answer();
  r.at = request::stage::ended;
  if (is_closing_) {
    if (!is_ok && !r.is_answered) {
      r.give_up(true);
      counts_.unavailable += !r.is_repeated();
    }
    r.is_answered = true;
    return;
  }
  end_turn(r);
  if (r.is_delivered) {  // it had expired
    r.in_order.unlink();
    delete &r;
    return;
  }
  if (r.in_queue.is_linked()) return;  // it has expired, and is to be delivered
  if (!is_ok) {
    r.give_up(status == store_status::unknown);
    ++counts_.unavailable;
  }
  answer(r);
}

void request_desk::on_left(request& r) noexcept {
  if (is_closing_ || r.is_answered) return on_ended(r, store_status::unavailable);  // closed, or expired
  r.was_left = true;
  r.at = request::stage::queued;
  left_.push_back(r);
}

void request_desk::on_put(put_request& r) noexcept {
  counts_.unavailable += r.result == schedule_result::unavailable;  // expired and carried out, it is `unknown`
  if (r.result != schedule_result::scheduled && r.result != schedule_result::replaced) return;
  ++counts_.scheduled;
  r.row.id = std::move(r.id);
  client_.on_pending(std::move(r.row));
}

void request_desk::on_cancelled(cancel_request& r) noexcept {
  if (r.result == cancel_result::cancelled) client_.on_cancelled(r.id);
  counts_.unavailable += r.result == cancel_result::unavailable;
}

void request_desk::on_revived(revive_request& r) noexcept {
  if (r.result == revive_result::revived) client_.on_revived();
  counts_.unavailable += r.result == revive_result::unavailable;
}

void request_desk::on_finished(finish_request& r) noexcept {
  outage_.on_answer();
  ++(r.result == finish_result::finished ? counts_.finished : counts_.stale);
  if (r.of == nullptr) return;
  client_.on_start_ended(*r.of);
  r.of.reset();
}

void request_desk::on_arrived(arrival& answered) noexcept {
  if (!is_closing_) return client_.on_arrived(answered);
  while (answered.take_in_one()) {
  }
}

void request_desk::enqueue_left() {
  while (!left_pause_.holds() && !left_.empty()) {
    request& r = left_.front();
    left_.pop_front();
    r.enqueue();
  }
}

void request_desk::send() {
  enqueue_left();
  if (!outage_.holds()) finishes.send();
  puts.send();
  cancels.send();
  revives.send();
  gets.send();
  lists.send();
}

int request_desk::schedule(task what, completion<schedule_result> done, on_conflict conflict) {
  if (problem(what, options_.max_payload) != nullptr) return UV_EINVAL;
  const std::size_t bytes = what.id.size() + what.payload.size();
  if (const int error = admit(bytes)) return error;
  auto r = make<put_request>(bytes);
  r->id = what.id;
  r->what = std::move(what);
  r->conflict = conflict;
  r->done = std::move(done);
  const std::string& id = r->id;
  return accept(std::move(r), id);
}

template <class R, class Completion>
int request_desk::ask_about(std::string_view id, Completion done) {
  if (!is_valid_id(id)) return UV_EINVAL;
  if (const int error = admit(id.size())) return error;
  auto r = make<R>(id.size());
  r->id = id;
  r->done = std::move(done);
  const std::string& own = r->id;
  return accept(std::move(r), own);
}

int request_desk::cancel(std::string_view id, completion<cancel_result> done) {
  return ask_about<cancel_request>(id, std::move(done));
}

int request_desk::revive(std::string_view id, completion<revive_result> done) {
  return ask_about<revive_request>(id, std::move(done));
}

int request_desk::get(std::string_view id, completion<read_result, task_info> done) {
  return ask_about<get_request>(id, std::move(done));
}

int request_desk::list(task_state state, std::string_view after, std::size_t limit,
                       completion<read_result, std::vector<task_info>> done) {
  if (limit == 0 || limit > 10'000 || state > task_state::cancelled) return UV_EINVAL;
  if (!after.empty() && !is_valid_id(after)) return UV_EINVAL;
  if (const int error = admit(after.size())) return error;
  auto r = make<list_request>(after.size());
  r->state = state;
  r->after = after;
  r->limit = limit;
  r->done = std::move(done);
  return accept(std::move(r), {});
}

int request_desk::finish(std::string_view id, std::uint64_t token, completion<finish_result> confirmed) {
  if (!is_valid_id(id)) return UV_EINVAL;
  if (const int error = admit(id.size())) return error;
  auto r = make<finish_request>(id.size());
  r->what.id = id;
  r->what.token = token;
  r->what.how = outcome::done;
  r->done = std::move(confirmed);
  const std::string& own = r->what.id;
  return accept(std::move(r), own);
}

void request_desk::end(std::unique_ptr<start> s, finish_call::item what, completion<finish_result> confirmed) {
  auto r = make<finish_request>(0);
  r->what = std::move(what);
  r->of = std::move(s);
  r->of->payload = {};
  r->is_counted = false;  // max_running limits it
  r->done = std::move(confirmed);
  id_turn& turn = turn_of(r->what.id);
  take_turn(*r.release(), &turn);
}

bool request_desk::validate(std::string* why) const {
  const char* broken = nullptr;
  std::size_t counted = 0;
  std::size_t bytes = 0;
  for (const request& r : requests_) {
    if (r.is_counted && !r.is_delivered) {
      ++counted;
      bytes += r.bytes;
    }
    if (r.is_delivered && r.at == request::stage::ended)
      broken = "a request has ended and was delivered, and is still here";
    if (r.turn != nullptr && (r.turn->head == &r) != (r.at != request::stage::waiting))
      broken = "a request is out of turn";
  }
  if (counted != open_requests_ || bytes != request_bytes_) broken = "the count of requests is off";
  if (broken == nullptr) return calls_.validate(why);
  if (why != nullptr) *why = broken;
  return false;
}

}  // namespace tickwheel::durable::detail
