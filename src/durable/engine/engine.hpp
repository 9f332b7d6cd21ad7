// The engine of a scheduler: puts its parts together, and gives each its turn.
#pragma once

#include "../fork_check.hpp"
#include "../standing_timer.hpp"
#include "arrivals.hpp"
#include "membership.hpp"
#include "outage_pause.hpp"
#include "request_desk.hpp"
#include "start.hpp"
#include "starter.hpp"
#include "store_clock.hpp"
#include "task_window.hpp"
#include "window_reader.hpp"

#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/uv/remote.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tickwheel::durable::detail {

/// All state of a scheduler.
///
/// The user's callables are called in *turns*. A request, an answer of the store, or a due task asks for one, and it comes as a zero
/// delay. So no callable runs within a request or within the store. A turn takes in answers and calls the user, for a limited time. It
/// also begins what is due, and sends what was requested: the requests of one iteration of the loop go out in one batch.
///
/// In a child of a fork it does nothing more: a start or an answer that has already arrived belongs to the parent.
///
/// *Lifetime:* shared by its scheduler and by the functions that are running, because a callable may destroy the scheduler. In a child of a
/// fork that closes it, it is never destroyed.
class engine final : public std::enable_shared_from_this<engine>,
                     private membership::client,
                     private request_desk::client,
                     private starter::client,
                     private store_listener,
                     private window_reader::client {
 public:
  engine(timer_service&, std::unique_ptr<store>, scheduler_options);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  void set_handler(std::shared_ptr<start_handler>) noexcept;
  int open(completion<int> ready);
  /// Closes the scheduler. `ready` gets `ready_error` if it has not been called.
  void close(int ready_error = UV_ECANCELED) noexcept;

  /// Returns the desk. Null: the scheduler or its service is closed.
  request_desk* desk() noexcept;
  void pause() noexcept;
  void resume() noexcept;
  int drain(completion<> drained);

  std::string_view problem() const noexcept;
  void set_ref(bool on) noexcept;
  bool has_ref() const noexcept { return has_ref_; }
  std::optional<clock::time_point> store_now() const noexcept;
  std::optional<clock::time_point> latest_store_now() const noexcept;
  scheduler_stats stats() const;
  bool validate(std::string* why) const;
  void check_thread() const noexcept;

  // The ends of an execution.
  void done(std::unique_ptr<start>, completion<finish_result>);
  void retry_after(std::unique_ptr<start>, std::chrono::nanoseconds delay, completion<finish_result>);
  void fail(std::unique_ptr<start>, std::string_view error, completion<finish_result>);
  void bury(std::unique_ptr<start>, std::string_view error, completion<finish_result>);

  /// The service that `watch` was posted to has destroyed it.
  void on_service_closed(std::uint64_t watch) noexcept;

 private:
  struct purge_flight final : purge_call {
    explicit purge_flight(engine& e) noexcept : purge_call{&answer_arrived}, of{e} {}
    static void answer_arrived(store_call&) noexcept;
    engine& of;
    bool is_busy = false;
  };

  // for all parts
  void wake() noexcept override;
  void on_answer(const store_call&) noexcept override;
  void on_arrived(arrival& answered) noexcept override { arrivals_.push(answered); }
  // for the members
  void on_renewed(clock::time_point store_now, tickwheel::clock::time_point sent) noexcept override {
    clock_.record_sent(store_now, sent);
  }
  void on_joined(int error) noexcept override;
  void on_session_lost() noexcept override;
  void on_partitions_gained() noexcept override { reader_.look(true); }
  void on_recovered(std::uint64_t tasks) noexcept override;
  void on_given_back() noexcept override { reader_.look(true); }
  void on_left() noexcept override;
  // for the desk
  void on_pending(pending_row&&) noexcept override;
  void on_cancelled(std::string_view id) noexcept override { window_.forget(id); }
  void on_revived() noexcept override { reader_.look_again(); }
  void on_start_ended(start& s) noexcept override { starter_.end(s); }
  // for the store
  void on_scheduled(partition_number) noexcept override;
  void on_released() noexcept override { members_.look(); }
  // for the reader
  bool wants_tasks() const noexcept override { return handler_ != nullptr && !is_draining_; }
  bool is_wanted(pending_row& row) noexcept override;
  void on_looked_from_the_beginning(std::chrono::nanoseconds took) noexcept override;

  void turn() noexcept;
  void take_in_and_deliver() noexcept;
  void on_poll() noexcept;
  void look_soon() noexcept;
  void purge();
  bool take_places() noexcept;
  void watch_service() noexcept;
  /// Returns true if it is open, and its service was not closed since. A service that is opened again does not arm `hold_`.
  bool has_service() const noexcept { return is_open_ && hold_.armed(); }
  void forget_opening() noexcept;
  clock::time_point after(std::chrono::nanoseconds delay) const noexcept;

  timer_service& timers_;
  const std::unique_ptr<store> store_;
  const scheduler_options options_;
  std::shared_ptr<start_handler> handler_;
  bool has_ref_ = true;
  bool is_paused_ = false;
  std::string problem_;
  tickwheel::detail::splitmix64 random_;
  const std::string name_;  // the same each time it is opened

  fork_check fork_;  // since it was opened
  // This object, in a child: its calls are never destroyed there. A thread of the store may have been changing one when the process
  // forked.
  std::shared_ptr<engine> kept_;
  bool is_open_ = false;
  bool is_closing_ = false;
  std::uint64_t openings_ = 0;  // how often it was opened
  completion<int> ready_;
  std::optional<int> ready_result_;  // to be delivered
  completion<> drained_;
  bool is_draining_ = false;
  bool is_leaving_ = false;
  bool is_drained_ = false;  // to be delivered

  standing_timer<&engine::turn> turn_;
  standing_timer<&engine::on_poll> poll_;
  standing_timer<&engine::look_soon> soon_;  // a look for what other programs have scheduled
  tickwheel::clock::time_point next_soon_{};
  callback_timer<void (*)() noexcept> hold_;  // keeps the loop alive; armed while it is open, until the service closes
  remote_timer service_watch_;
  bool is_watching_ = false;  // the service
  std::uint64_t watches_ = 0;
  unsigned polls_ = 0;                    // since it was opened
  std::chrono::nanoseconds look_took_{};  // the last whole one from the beginning

  store_clock clock_;
  outage_pause begins_pause_;
  outage_pause finishes_pause_;
  outage_pause left_pause_;  // of requests that the store has left out of their batches
  membership members_;
  task_window window_;
  request_desk desk_;
  starter starter_;
  window_reader reader_;
  arrivals arrivals_;
  purge_flight purge_{*this};

  std::uint64_t failed_ = 0;
  std::uint64_t store_failures_ = 0;
  std::uint64_t recovered_ = 0;
};

}  // namespace tickwheel::durable::detail
