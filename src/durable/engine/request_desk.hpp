// The request desk accepts requests, keeps the order of those for one id, sends them to the store, and keeps their answers.
#pragma once

#include "batch_lane.hpp"
#include "outage_pause.hpp"
#include "request.hpp"

#include <tickwheel/durable/scheduler_options.hpp>
#include <tickwheel/net/pending_calls.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tickwheel::durable::detail {

/// The order of the requests for one id: the head may be sent, and the others wait.
struct id_turn {
  request* head = nullptr;  // may be sent
  request_queue waiting;
  const std::string* id = nullptr;
};

/// A request goes through these stages: it waits for an earlier one of its id; it is queued for a batch; it is with the store; it has
/// ended. It is answered once, by the store or by its deadline, and an answer waits here until it is delivered.
///
/// A finish is sent until the store has answered it. In an outage all finishes pause. A request that the store leaves out of its batch
/// pauses without the others, and is sent again.
///
/// *Complexity:* O(1) per request.
class request_desk final : private lane_owner {
 public:
  /// The part of the engine that it calls.
  class client {
   public:
    /// There is something to send or to deliver.
    virtual void wake() noexcept = 0;
    virtual void on_answer(const store_call&) noexcept = 0;
    /// An answer is there to be taken in.
    virtual void on_arrived(arrival&) noexcept = 0;
    /// A task is pending, as the store has just answered.
    virtual void on_pending(pending_row&&) noexcept = 0;
    virtual void on_cancelled(std::string_view id) noexcept = 0;
    virtual void on_revived() noexcept = 0;
    /// The store has confirmed the end of `s`.
    virtual void on_start_ended(start& s) noexcept = 0;

   protected:
    ~client() = default;
  };

  struct counts {
    std::uint64_t scheduled = 0;
    std::uint64_t finished = 0;
    std::uint64_t stale = 0;
    std::uint64_t unavailable = 0;
  };

  /// Finishes pause by `outage`, and requests that the store has left by `left`.
  request_desk(timer_service&, const scheduler_options&, outage_pause& outage, outage_pause& left, client&) noexcept;
  request_desk(const request_desk&) = delete;
  request_desk& operator=(const request_desk&) = delete;

  /// Makes room for requests of so many ids. May throw std::bad_alloc.
  void reserve(std::size_t ids) { turns_.reserve(ids); }
  /// Returns 0 or UV_ENOMEM.
  int open(store&) noexcept;
  /// The store is about to be closed: it answers all calls.
  void begin_close() noexcept { is_closing_ = true; }
  /// The store was closed. Answers all requests, and moves them to `leaving`, in the order of the calls.
  void close(request_order& leaving) noexcept;
  /// Delivers the requests of `close`. Any of them may destroy the desk.
  static void deliver_all(request_order& leaving) noexcept;
  /// Destroys them without a call.
  static void drop_all(request_order& leaving) noexcept;

  // As the functions of the scheduler. They may throw std::bad_alloc, and then have changed nothing.
  int schedule(task, completion<schedule_result>, on_conflict);
  int cancel(std::string_view id, completion<cancel_result>);
  int get(std::string_view id, completion<read_result, task_info>);
  int list(task_state, std::string_view after, std::size_t limit, completion<read_result, std::vector<task_info>>);
  int revive(std::string_view id, completion<revive_result>);
  int finish(std::string_view id, std::uint64_t token, completion<finish_result>);
  /// Ends `s`, which keeps its place until the store has answered. Not counted as a request.
  void end(std::unique_ptr<start> s, finish_call::item, completion<finish_result>);

  /// Sends what is queued.
  void send();
  bool has_answers() const noexcept { return !answered_.empty(); }
  /// Calls the callable of the oldest answer. The callable may close or destroy the desk.
  void deliver_one() noexcept;

  std::size_t size() const noexcept { return open_requests_; }
  const counts& count() const noexcept { return counts_; }
  /// Checks every invariant, as `scheduler::validate`.
  bool validate(std::string* why) const;

  // called by requests
  void on_expired(request&) noexcept;
  void on_put(put_request&) noexcept;
  void on_cancelled(cancel_request&) noexcept;
  void on_revived(revive_request&) noexcept;
  void on_finished(finish_request&) noexcept;
  batch_lane<put_traits> puts{*this};
  batch_lane<cancel_traits> cancels{*this};
  batch_lane<revive_traits> revives{*this};
  batch_lane<get_traits> gets{*this};
  batch_lane<list_traits> lists{*this};
  batch_lane<finish_traits> finishes{*this};

 private:
  void on_answer(const store_call& c) noexcept override {
    if (!is_closing_) client_.on_answer(c);
  }
  void on_outage() noexcept override {
    if (!is_closing_) outage_.begin();
  }
  void on_left_some() noexcept override {
    if (!is_closing_) left_pause_.begin();
  }
  void on_arrived(arrival&) noexcept override;
  void on_ended(request&, store_status) noexcept override;
  void on_left(request&) noexcept override;
  void on_pending(pending_row&& row) noexcept override { client_.on_pending(std::move(row)); }
  store& tasks() noexcept override { return *tasks_; }

  template <class R>
  std::unique_ptr<R> make(std::size_t request_bytes);
  template <class R, class Completion>
  int ask_about(std::string_view id, Completion done);
  int admit(std::size_t request_bytes) const noexcept;
  template <class R>
  int accept(std::unique_ptr<R>, const std::string& id);
  id_turn& turn_of(const std::string& id);
  void take_turn(request&, id_turn*) noexcept;
  void end_turn(request&) noexcept;
  void answer(request&) noexcept;
  void enqueue_left();

  timer_service& timers_;
  const scheduler_options& options_;
  outage_pause& outage_;
  outage_pause& left_pause_;
  client& client_;
  store* tasks_ = nullptr;
  bool is_closing_ = false;

  pending_calls<&request::on_expired> calls_;
  std::uint64_t last_call_ = 0;
  request_order requests_;  // in the order of the calls; owns them
  request_queue answered_;  // of these, those to be delivered
  request_queue left_;      // by the store; to be sent again after the pause
  std::unordered_map<std::string, id_turn> turns_;
  std::size_t open_requests_ = 0;
  std::size_t request_bytes_ = 0;
  counts counts_;
};

}  // namespace tickwheel::durable::detail
