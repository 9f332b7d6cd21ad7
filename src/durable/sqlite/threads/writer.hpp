// The thread that writes: it commits calls in groups.
#pragma once

#include "../file/lock_file.hpp"
#include "../verbs/membership.hpp"
#include "../verbs/requests.hpp"
#include "../verbs/starts.hpp"
#include "../verbs/transaction.hpp"
#include "outbox.hpp"
#include "store_state.hpp"
#include "work_queues.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace tickwheel::durable::sqlite {

/// Carries out all verbs but load and list. A call is answered after its transaction has been committed.
///
/// A transaction has all starts that wait, or a group of requests. A start does not wait for a whole group: while there are starts,
/// requests are committed in small parts, and starts are carried out in between. So a call may be committed in parts.
///
/// If a transaction fails before its COMMIT, it is rolled back, and its calls are `unavailable`. If its COMMIT fails, they are
/// `unknown`. Both connections are then closed and opened again, as after a checkpoint's sync that failed. Until all of the log has
/// been copied into the file, nothing is answered `ok`.
class writer {
 public:
  writer(store_state& state, work_queues& queues, outbox& answers) noexcept
      : state_{state}, queues_{queues}, answers_{answers} {}

  /// The thread's function. Returns after `work_queues::stop`, with its connection closed. The destructor frees the lock.
  void run() noexcept;

 private:
  // what is prepared on one connection
  struct open_file {
    open_file(const std::string& path, access how, const store_state&, const work_queues&);
    connection file;
    revisions counter;
    transaction changes;
    starts start_verbs;
    requests request_verbs;
    statement join;
    int log_frames = 0;  // in the write-ahead log, after a commit that wrote some
  };

  void carry_out(work_queues::writing&) noexcept;
  void commit(call_list&) noexcept;
  void join(queued_call&) noexcept;
  store_status try_to_join(join_call&) noexcept;
  store_status attempt(const call_list&, nanoseconds& now) noexcept;
  void run_all(const call_list&);
  bool run_one(queued_call&);
  void run_start(const queued_call&);
  void renew(renew_call&);
  void recover(recover_call&);
  void after_commit();
  void open(access);
  void reopen() noexcept;
  void lose_file() noexcept;
  void complete_checkpoint() noexcept;
  void answer(call_list&&) noexcept;

  store_state& state_;
  work_queues& queues_;
  outbox& answers_;
  std::optional<lock_file> lock_;
  open_sign sign_;                   // outlives all connections
  std::unique_ptr<open_file> open_;  // null: not joined, or to be opened again
  membership node_;
  queued_call* first_left_ = nullptr;  // the open transaction has not reached its end, if any
  std::size_t reached_ = 0;            // elements of the call that the open transaction carried out last
  revision last_revision_ = 0;         // of connections before
};

}  // namespace tickwheel::durable::sqlite
