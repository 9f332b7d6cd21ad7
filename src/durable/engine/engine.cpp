#include "engine.hpp"

#include "../batch_limits.hpp"
#include "../utf8.hpp"
#include "present.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <utility>

namespace tickwheel::durable::detail {

using namespace std::chrono_literals;

namespace {

constexpr unsigned polls_per_round = 10;  // at least, until all has been looked at from the beginning, and recovered
constexpr int pause_after_wake = 3;       // the same of a look that other programs ask for
constexpr std::size_t most_reserved = 1 << 20;  // a table that grows later holds the loop for long
constexpr auto least_between_looks = 10ms;      // that other programs ask for

constexpr clock::time_point last_due = clock::time_point{std::chrono::sys_days{std::chrono::year{2200} / 1 / 1}} - 1ns;

std::string made_up_name(std::uint64_t random) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "node-%016" PRIx64, random);
  return name.data();
}

// The delay that a backoff answers in this place. The attempts before may have run on other nodes.
std::chrono::nanoseconds delay_after(unsigned attempt, backoff_options options, std::uint64_t seed) {
  const double grown = static_cast<double>(options.base.count()) * std::pow(options.multiplier, attempt - 1.0);
  const bool is_capped = grown >= static_cast<double>(options.cap.count());
  options.base = is_capped ? options.cap : std::chrono::nanoseconds{static_cast<std::int64_t>(grown)};
  return backoff{options, seed}.next();
}

// Posted to the service, to run never. A service that closes destroys it: the scheduler then closes.
struct service_watch {
  service_watch(std::weak_ptr<engine> e, std::uint64_t n) noexcept : of{std::move(e)}, number{n} {}
  service_watch(service_watch&&) noexcept = default;
  service_watch& operator=(service_watch&&) = delete;
  ~service_watch() {
    if (const auto still = of.lock()) still->on_service_closed(number);
  }
  void operator()() const noexcept {}

  std::weak_ptr<engine> of;
  std::uint64_t number;
};

template <class Part>
Part& part_of(void* self) noexcept {
  return *static_cast<Part*>(self);
}

}  // namespace

engine::engine(timer_service& timers, std::unique_ptr<store> tasks, scheduler_options options)
    : timers_{timers},
      store_{std::move(tasks)},
      options_{std::move(options)},
      random_{options_.seed != 0 ? options_.seed : tickwheel::detail::seed_of(this)},
      name_{options_.name.empty() ? made_up_name(random_.next()) : options_.name},
      turn_{timers, *this},
      poll_{timers, *this},
      soon_{timers, *this},
      hold_{timers, []() noexcept {}},
      begins_pause_{timers, random_.next(), [](void* self) noexcept { part_of<engine>(self).wake(); }, this},
      finishes_pause_{timers, random_.next(), [](void* self) noexcept { part_of<engine>(self).wake(); }, this},
      left_pause_{timers, random_.next(), [](void* self) noexcept { part_of<engine>(self).wake(); }, this},
      members_{timers, *this},
      window_{timers, options_.max_loaded, [](void* self) noexcept { part_of<engine>(self).wake(); }, this},
      desk_{timers, options_, finishes_pause_, left_pause_, *this},
      starter_{timers, options_, clock_, members_, window_, begins_pause_, *this},
      reader_{timers, options_, clock_, members_, window_, *this} {}

engine::~engine() { close(); }

void engine::check_thread() const noexcept {
  if (timers_.is_open()) timers_.check_thread("a scheduler is used on another thread than its loop's");
}

void engine::set_handler(std::shared_ptr<start_handler> handler) noexcept {
  tickwheel::detail::require(!is_open_, "scheduler::on_due was called while the scheduler is open");
  handler_ = std::move(handler);
}

// --- open and close

int engine::open(completion<int> ready) {
  check_thread();
  const auto self = shared_from_this();
  if (is_open_ && !has_service()) close();
  if (self.use_count() == 1) return UV_ECANCELED;  // the scheduler was destroyed meanwhile
  const char* const why = store_ == nullptr ? "scheduler: there is no store" : options_.problem();
  if (why != nullptr) {
    problem_ = why;
    return UV_EINVAL;
  }
  if (is_open_) return UV_EALREADY;
  if (!timers_.is_open()) return UV_ECANCELED;
  if (!ready) return UV_ENOMEM;
  problem_.clear();
  desk_.reserve(std::min(options_.max_requests, most_reserved));
  window_.reserve(std::min(options_.max_loaded, most_reserved));
  if (const int error = desk_.open(*store_)) return error;
  store_->listen(*this);
  int error = store_->open(timers_);
  if (error == 0 && !take_places()) {
    store_->close();
    error = UV_ENOMEM;
  }
  if (error != 0) {
    members_.close();
    forget_opening();
    request_order none;
    desk_.close(none);
    return error;
  }
  fork_ = {};
  is_open_ = true;
  ++openings_;
  ready_ = std::move(ready);
  reader_.open(*store_);
  has_ref_ ? hold_.ref() : hold_.unref();
  watch_service();
  poll_.set(options_.poll);
  members_.open(*store_, options_, name_, handler_ != nullptr, random_.next());
  return 0;
}

// All that it needs while it is open. So `max_armed`, when it is reached later, refuses loaded tasks and requests alone.
bool engine::take_places() noexcept {
  return turn_.open() == 0 && poll_.open() == 0 && soon_.open() == 0 && begins_pause_.open() &&
         finishes_pause_.open() && left_pause_.open() && members_.open_timer() &&
         hold_.arm(std::chrono::nanoseconds::max()) == 0;
}

// An armed call of another thread keeps the loop alive, so there is none without a reference.
void engine::watch_service() noexcept {
  service_watch_ = {};
  ++watches_;
  is_watching_ = false;
  if (!has_ref_) return;
  service_watch watch{weak_from_this(), watches_};
  is_watching_ = timers_.remote().arm(std::chrono::nanoseconds::max(), std::move(watch), service_watch_) == 0;
}

void engine::on_service_closed(std::uint64_t watch) noexcept {
  if (watch == watches_ && !has_service()) close();
}

void engine::close(int ready_error) noexcept {
  if (!is_open_ || is_closing_) return;
  const auto self = weak_from_this().lock();  // null in the destructor
  is_closing_ = true;
  arrivals_.take_in_all();
  members_.close();
  reader_.close();
  starter_.forget_session();
  desk_.begin_close();
  store_->close();  // answers all calls
  starter_.close();
  request_order leaving;
  desk_.close(leaving);
  auto ready = std::exchange(ready_, {});
  forget_opening();
  is_open_ = is_closing_ = false;

  if (fork_.is_in_child()) {
    kept_ = self;
    return request_desk::drop_all(leaving);
  }
  ready(ready_error);
  request_desk::deliver_all(leaving);
}

void engine::forget_opening() noexcept {
  ++watches_;
  service_watch_ = {};
  turn_.close();
  poll_.close();
  soon_.close();
  hold_.cancel();
  begins_pause_.close();
  finishes_pause_.close();
  left_pause_.close();
  window_.clear();
  clock_ = {};
  ready_result_.reset();
  drained_ = {};
  is_draining_ = is_leaving_ = is_drained_ = false;
  polls_ = 0;
  look_took_ = {};
}

request_desk* engine::desk() noexcept {
  check_thread();
  if (is_open_ && !has_service()) {
    close();  // the user may destroy this
    return nullptr;
  }
  return is_open_ && !is_closing_ ? &desk_ : nullptr;
}

void engine::set_ref(bool on) noexcept {
  check_thread();
  if (has_ref_ == on) return;
  has_ref_ = on;
  if (desk() == nullptr) return;
  on ? hold_.ref() : hold_.unref();
  watch_service();
}

std::string_view engine::problem() const noexcept {
  return store_ == nullptr || !problem_.empty() ? std::string_view{problem_} : store_->problem();
}

// --- turns

void engine::wake() noexcept {
  if (is_open_ && !is_closing_ && !turn_.is_set()) turn_.set(0ns);
}

void engine::turn() noexcept {
  if (fork_.is_in_child()) return;
  const auto self = shared_from_this();
  if (!has_service()) return close();              // the service was closed and is open again
  if (has_ref_ && !is_watching_) watch_service();  // it had no place
  const std::uint64_t opening = openings_;
  take_in_and_deliver();
  if (!is_open_ || opening != openings_) return;
  if (members_.is_joined()) {
    if (wants_tasks() && !is_paused_) starter_.begin_due(*store_, *this);
    desk_.send();
    reader_.look_if_half_is_gone();
  }
  // A task in doubt is given back first. A close right after `drained` would count it as lost.
  if (is_draining_ && !is_leaving_ && starter_.is_idle() && !members_.has_doubts()) {
    is_leaving_ = true;
    members_.leave();
  }
}

// Works for a limited time. The user may close, reopen or destroy the scheduler in each call.
void engine::take_in_and_deliver() noexcept {
  const std::uint64_t opening = openings_;
  const std::shared_ptr<start_handler> handler = handler_;  // it may set another one
  const auto until = present(timers_) + limits.turn;
  const auto goes_on = [&] { return is_open_ && opening == openings_; };
  if (ready_result_) {
    const int result = *std::exchange(ready_result_, std::nullopt);
    if (result != 0) return close(result);
    std::exchange(ready_, {})(0);
  }
  while (goes_on() && (!arrivals_.empty() || desk_.has_answers() || starter_.has_starts())) {
    if (!arrivals_.empty()) arrivals_.take_in_one();
    if (desk_.has_answers()) desk_.deliver_one();
    if (goes_on() && starter_.has_starts()) starter_.hand_out_one(*handler);
    if (goes_on() && present(timers_) >= until) return wake();
  }
  if (goes_on() && std::exchange(is_drained_, false)) std::exchange(drained_, {})();
}

void engine::on_answer(const store_call& call) noexcept {
  if (call.status == store_status::ok)
    clock_.record(call.now, present(timers_));
  else
    ++store_failures_;
  wake();
}

// --- polls

void engine::on_poll() noexcept {
  if (fork_.is_in_child()) return;
  poll_.set(options_.poll);
  wake();
  window_.follow(clock_);
  if (!members_.is_joined()) return;
  const bool is_tenth = ++polls_ % polls_per_round == 0;
  if (is_tenth && !reader_.is_in_round()) reader_.begin_round(polls_per_round);
  if (is_tenth || members_.has_doubts()) members_.recover(members_.has_doubts());
  if (!reader_.is_paused()) reader_.look(false);
  if (handler_ != nullptr && !purge_.is_busy) purge();
}

void engine::on_scheduled(partition_number p) noexcept {
  if (is_closing_ || !members_.owns(p) || soon_.is_set()) return;
  soon_.set(std::max<std::chrono::nanoseconds>(next_soon_ - timers_.now(), 0ns));
}

// From the beginning, because the task may be due already.
void engine::look_soon() noexcept {
  if (fork_.is_in_child()) return;
  next_soon_ = timers_.now() + std::max<std::chrono::nanoseconds>(least_between_looks, look_took_ * pause_after_wake);
  if (!reader_.is_paused()) reader_.look(true);
}

void engine::purge() {
  purge_.is_busy = true;
  purge_.limit = limits.purged;
  purge_.purged = 0;
  store_->purge(purge_);
}

void engine::purge_flight::answer_arrived(store_call& call) noexcept {
  auto& self = static_cast<purge_flight&>(static_cast<purge_call&>(call));
  self.is_busy = false;
  if (self.of.is_closing_) return;
  self.of.on_answer(self);
  if (self.status == store_status::ok && self.purged >= limits.purged) self.of.purge();
}

void engine::on_looked_from_the_beginning(std::chrono::nanoseconds took) noexcept {
  look_took_ = std::min(took, longest_look);
}

// The store has just made a task pending. It need not wait for the next look.
void engine::on_pending(pending_row&& row) noexcept {
  if (!wants_tasks() || !members_.owns(row.partition)) return;
  if (row.at - clock_.at(present(timers_)) > options_.window) return window_.forget(row.id);
  if (is_wanted(row)) (void)window_.add(std::move(row), clock_);
}

bool engine::is_wanted(pending_row& row) noexcept {
  return members_.owns(row.partition) && !members_.is_doubted(row.id) && !starter_.keep_for_end(row);
}

// --- membership

void engine::on_joined(int error) noexcept {
  if (error != 0 || ready_) ready_result_ = error;
  wake();
}

void engine::on_session_lost() noexcept {
  starter_.forget_session();
  window_.clear();
}

void engine::on_recovered(std::uint64_t tasks) noexcept {
  recovered_ += tasks;
  if (tasks != 0) reader_.look(true);
}

void engine::on_left() noexcept {
  is_drained_ = true;
  window_.clear();
  wake();
}

// --- the ends of executions

// Returns a time of the store that is not sooner than `delay` from now.
clock::time_point engine::after(std::chrono::nanoseconds delay) const noexcept {
  const auto steady_now = present(timers_);
  const auto now = clock_.at_most(steady_now).value_or(clock_.at(steady_now));
  if (delay <= 0ns) return now;
  return delay < last_due - now ? now + std::chrono::duration_cast<clock::duration>(delay) : last_due;
}

void engine::done(std::unique_ptr<start> s, completion<finish_result> confirmed) {
  finish_call::item what{s->id, s->token, outcome::done, {}, false, {}};
  desk_.end(std::move(s), std::move(what), std::move(confirmed));
}

void engine::retry_after(std::unique_ptr<start> s, std::chrono::nanoseconds delay,
                         completion<finish_result> confirmed) {
  finish_call::item what{s->id, s->token, outcome::again, after(delay), true, {}};
  desk_.end(std::move(s), std::move(what), std::move(confirmed));
}

void engine::fail(std::unique_ptr<start> s, std::string_view error, completion<finish_result> confirmed) {
  ++failed_;
  const bool is_last = s->attempt >= options_.max_attempts;
  const outcome how = !is_last ? outcome::again : s->period != 0ns ? outcome::done : outcome::dead;
  const auto at = after(delay_after(s->attempt, options_.retry, random_.next()));
  finish_call::item what{s->id, s->token, how, at, false, valid_prefix(error, max_error_bytes)};
  desk_.end(std::move(s), std::move(what), std::move(confirmed));
}

void engine::bury(std::unique_ptr<start> s, std::string_view error, completion<finish_result> confirmed) {
  ++failed_;
  finish_call::item what{s->id, s->token, outcome::dead, {}, false, valid_prefix(error, max_error_bytes)};
  desk_.end(std::move(s), std::move(what), std::move(confirmed));
}

// --- pause and drain

void engine::pause() noexcept {
  check_thread();
  is_paused_ = true;
}

void engine::resume() noexcept {
  check_thread();
  is_paused_ = false;
  wake();
}

int engine::drain(completion<> drained) {
  if (desk() == nullptr) return UV_ECANCELED;
  if (is_draining_) return UV_EALREADY;
  if (!drained) return UV_ENOMEM;
  is_draining_ = true;
  drained_ = std::move(drained);
  wake();
  return 0;
}

// --- inspection

std::optional<clock::time_point> engine::store_now() const noexcept {
  check_thread();
  if (!has_service() || !clock_.is_known()) return std::nullopt;
  return clock_.at(present(timers_));
}

std::optional<clock::time_point> engine::latest_store_now() const noexcept {
  check_thread();
  if (!has_service()) return std::nullopt;
  return clock_.at_most(present(timers_));
}

scheduler_stats engine::stats() const {
  scheduler_stats s;
  const request_desk::counts& asked = desk_.count();
  s.scheduled = asked.scheduled;
  s.finished = asked.finished;
  s.stale = asked.stale;
  s.unavailable = asked.unavailable;
  s.store_failures = store_failures_;
  s.started = starter_.handed_out();
  s.failed = failed_;
  s.recovered = recovered_;
  s.requests = desk_.size();
  s.running = starter_.running();
  s.loaded = window_.size();
  s.partitions = members_.partition_count();
  s.dead = members_.dead();
  s.lateness = duration_histogram{starter_.lateness(), tick_length::at_most(starter::lateness_unit)};
  if (!has_service()) return s;
  const auto now = present(timers_);
  if (const auto first = window_.first_not_started())
    s.oldest_overdue = std::max<std::chrono::nanoseconds>(clock_.at(now) - *first, 0ns);
  if (const start* const first = starter_.oldest()) s.oldest_running = now - first->begun_at;
  return s;
}

bool engine::validate(std::string* why) const {
  const char* broken = has_service() ? window_.problem() : nullptr;  // a service that closes disarms the loaded tasks
  if (broken == nullptr) broken = starter_.problem();
  if (broken == nullptr) return desk_.validate(why);
  if (why != nullptr) *why = broken;
  return false;
}

}  // namespace tickwheel::durable::detail
