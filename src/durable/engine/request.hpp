// A request of the scheduler's user, from the call until its answer was delivered and the store has answered.
#pragma once

#include "start.hpp"

#include <tickwheel/durable/detail/completion.hpp>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/net/pending_calls.hpp>

#include <boost/intrusive/list.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::durable::detail {

class request_desk;
struct id_turn;

namespace intrusive = boost::intrusive;
using unlinks = intrusive::link_mode<intrusive::auto_unlink>;

/// The part that all requests share.
///
/// *Lifetime:* on the heap. It is freed once it is neither with the store nor waiting to be delivered.
class request : public pending_call {
 public:
  enum class stage : std::uint8_t {
    waiting,  ///< for an earlier request of its id
    queued,   ///< for its batch
    sent,     ///< to the store
    ended,    ///< the store has answered, or was never asked
  };

  request(timer_service& timers, request_desk& of, std::size_t request_bytes) noexcept
      : pending_call{timers}, owner{of}, bytes{request_bytes} {
    unref();
  }
  virtual ~request() = default;

  /// Its deadline has passed.
  void on_expired(int error) noexcept;

  /// Sets the answer of a request that gets none from the store. `maybe_done`: the store may have done it.
  virtual void give_up(bool maybe_done) noexcept = 0;
  /// Calls the callable with the answer.
  virtual void deliver() noexcept = 0;
  /// Puts it into the queue of its verb.
  virtual void enqueue() noexcept = 0;
  /// The store has carried it out: brings the engine up to date.
  virtual void apply() noexcept {}
  /// Returns true if it is sent again until the store has answered.
  virtual bool is_repeated() const noexcept { return false; }

  request_desk& owner;
  std::size_t bytes;        // counted against max_request_bytes
  id_turn* turn = nullptr;  // of its id; null: it needs none
  stage at = stage::waiting;
  bool is_answered = false;                       // `deliver` may be called
  bool is_delivered = false;                      // `deliver` was called
  bool is_counted = true;                         // among max_requests until it is delivered
  bool was_left = false;                          // by the store, which has carried out the rest of its batch
  intrusive::list_member_hook<unlinks> in_order;  // all requests, in the order of the calls
  intrusive::list_member_hook<unlinks>
      in_queue;  // those of its id that wait, or those of its verb, or the answered ones
};

using request_order =
    intrusive::list<request, intrusive::member_hook<request, intrusive::list_member_hook<unlinks>, &request::in_order>,
                    intrusive::constant_time_size<false>>;
using request_queue =
    intrusive::list<request, intrusive::member_hook<request, intrusive::list_member_hook<unlinks>, &request::in_queue>,
                    intrusive::constant_time_size<false>>;

struct put_request final : request {
  using request::request;
  task what;
  on_conflict conflict{};
  std::string id;   // the task moves into its batch, and the id is needed afterwards
  pending_row row;  // of what was written
  schedule_result result{};
  completion<schedule_result> done;

  void give_up(bool maybe_done) noexcept override {
    result = maybe_done ? schedule_result::unknown : schedule_result::unavailable;
  }
  void deliver() noexcept override { done(result); }
  void enqueue() noexcept override;
  void apply() noexcept override;
};

struct cancel_request final : request {
  using request::request;
  std::string id;
  cancel_result result{};
  completion<cancel_result> done;

  void give_up(bool maybe_done) noexcept override {
    result = maybe_done ? cancel_result::unknown : cancel_result::unavailable;
  }
  void deliver() noexcept override { done(result); }
  void enqueue() noexcept override;
  void apply() noexcept override;
};

struct revive_request final : request {
  using request::request;
  std::string id;
  revive_result result{};
  completion<revive_result> done;

  void give_up(bool maybe_done) noexcept override {
    result = maybe_done ? revive_result::unknown : revive_result::unavailable;
  }
  void deliver() noexcept override { done(result); }
  void enqueue() noexcept override;
  void apply() noexcept override;
};

struct get_request final : request {
  using request::request;
  std::string id;
  read_result result{};
  task_info found;
  completion<read_result, task_info> done;

  void give_up(bool) noexcept override { result = read_result::unavailable; }
  void deliver() noexcept override { done(result, std::move(found)); }
  void enqueue() noexcept override;
};

struct list_request final : request {
  using request::request;
  task_state state{};
  std::string after;
  std::size_t limit = 0;
  read_result result{};
  std::vector<task_info> found;
  completion<read_result, std::vector<task_info>> done;

  void give_up(bool) noexcept override { result = read_result::unavailable; }
  void deliver() noexcept override { done(result, std::move(found)); }
  void enqueue() noexcept override;
};

/// The end of a start, or of a token. It has no deadline: it is sent until the store has answered.
struct finish_request final : request {
  using request::request;
  finish_call::item what;
  std::unique_ptr<start> of;  // keeps its place among max_running; null: the user kept only id and token
  finish_result result = finish_result::unknown;
  completion<finish_result> done;

  void give_up(bool) noexcept override { result = finish_result::unknown; }
  void deliver() noexcept override { done(result); }
  void enqueue() noexcept override;
  void apply() noexcept override;
  bool is_repeated() const noexcept override { return true; }
};

}  // namespace tickwheel::durable::detail
