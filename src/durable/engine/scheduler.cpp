#include <tickwheel/durable/scheduler.hpp>

#include "engine.hpp"

#include <new>
#include <optional>
#include <utility>

namespace tickwheel::durable {

namespace {

/// Returns what `ask` returns, or UV_ENOMEM if there was no memory for it.
template <class F>
int without_exceptions(F&& ask) noexcept {
  try {
    return ask();
  } catch (const std::bad_alloc&) {
    return UV_ENOMEM;
  }
}

/// As above, for a request. UV_ECANCELED: there is no desk.
template <class F>
int ask(detail::engine& of, F&& request) noexcept {
  return without_exceptions([&] {
    detail::request_desk* const desk = of.desk();
    return desk == nullptr ? static_cast<int>(UV_ECANCELED) : request(*desk);
  });
}

}  // namespace

scheduler::scheduler(timer_service& service, std::unique_ptr<store> tasks, scheduler_options options)
    : engine_{std::make_shared<detail::engine>(service, std::move(tasks), std::move(options))} {}

scheduler::~scheduler() { engine_->close(); }

void scheduler::set_handler(std::shared_ptr<detail::start_handler> handler) noexcept {
  engine_->set_handler(std::move(handler));
}

int scheduler::open_with(detail::completion<int> ready) noexcept {
  return without_exceptions([&] { return engine_->open(std::move(ready)); });
}

int scheduler::schedule_with(task what, detail::completion<schedule_result> done, on_conflict conflict) noexcept {
  return ask(*engine_,
             [&](detail::request_desk& desk) { return desk.schedule(std::move(what), std::move(done), conflict); });
}

int scheduler::cancel_with(std::string_view id, detail::completion<cancel_result> done) noexcept {
  return ask(*engine_, [&](detail::request_desk& desk) { return desk.cancel(id, std::move(done)); });
}

int scheduler::get_with(std::string_view id, detail::completion<read_result, task_info> done) noexcept {
  return ask(*engine_, [&](detail::request_desk& desk) { return desk.get(id, std::move(done)); });
}

int scheduler::list_with(task_state state, std::string_view after, std::size_t limit,
                         detail::completion<read_result, std::vector<task_info>> done) noexcept {
  return ask(*engine_, [&](detail::request_desk& desk) { return desk.list(state, after, limit, std::move(done)); });
}

int scheduler::revive_with(std::string_view id, detail::completion<revive_result> done) noexcept {
  return ask(*engine_, [&](detail::request_desk& desk) { return desk.revive(id, std::move(done)); });
}

int scheduler::finish_with(std::string_view id, std::uint64_t token,
                           detail::completion<finish_result> confirmed) noexcept {
  return ask(*engine_, [&](detail::request_desk& desk) { return desk.finish(id, token, std::move(confirmed)); });
}

int scheduler::drain_with(detail::completion<> drained) noexcept {
  return without_exceptions([&] { return engine_->drain(std::move(drained)); });
}

void scheduler::pause() noexcept { engine_->pause(); }
void scheduler::resume() noexcept { engine_->resume(); }
void scheduler::close() noexcept {
  engine_->check_thread();
  engine_->close();
}
std::string_view scheduler::problem() const noexcept { return engine_->problem(); }
void scheduler::ref() noexcept { engine_->set_ref(true); }
void scheduler::unref() noexcept { engine_->set_ref(false); }
bool scheduler::has_ref() const noexcept { return engine_->has_ref(); }
std::optional<clock::time_point> scheduler::store_now() const noexcept { return engine_->store_now(); }
std::optional<clock::time_point> scheduler::latest_store_now() const noexcept { return engine_->latest_store_now(); }
scheduler_stats scheduler::stats() const { return engine_->stats(); }
bool scheduler::validate(std::string* why) const { return engine_->validate(why); }

}  // namespace tickwheel::durable
