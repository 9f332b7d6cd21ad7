// The thread that reads many rows and runs checkpoints, so that the writer need not.
#pragma once

#include "../verbs/reads.hpp"
#include "outbox.hpp"
#include "store_state.hpp"
#include "work_queues.hpp"

#include <memory>
#include <mutex>

namespace tickwheel::durable::sqlite {

/// Carries out load and list on a connection of its own, which it opens for the first of them.
class reader {
 public:
  reader(store_state& state, work_queues& queues, outbox& answers) noexcept
      : state_{state}, queues_{queues}, answers_{answers} {}

  /// The thread's function. Returns after `work_queues::stop`.
  void run() noexcept;
  /// Any thread: ends a long read or checkpoint.
  void interrupt() noexcept;

 private:
  struct open_file {
    open_file(const std::string& path, const std::atomic<bool>& give_up);
    connection file;
    reads verbs;
  };

  open_file& opened();
  void close() noexcept;
  void carry_out(queued_call&) noexcept;
  void list(list_call&, nanoseconds now, bool& is_held);
  void checkpoint() noexcept;

  store_state& state_;
  work_queues& queues_;
  outbox& answers_;
  std::mutex mutex_;  // for `interrupt`: this thread alone changes `open_`
  std::unique_ptr<open_file> open_;
};

}  // namespace tickwheel::durable::sqlite
