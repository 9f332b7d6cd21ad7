// The store on the loop's thread.
#pragma once

#include "../fork_check.hpp"
#include "threads/outbox.hpp"
#include "threads/reader.hpp"
#include "threads/store_state.hpp"
#include "threads/work_queues.hpp"
#include "threads/writer.hpp"

#include <tickwheel/durable/sqlite.hpp>

#include <memory>
#include <string>
#include <thread>

namespace tickwheel::durable::sqlite {

/// Queues the calls for a writer and a reader, which it starts when it is opened.
///
/// In a child of a fork there is neither, and one of them may have held a lock. There a call is never answered, and `close` only
/// forgets what was open.
class file_store final : public store {
 public:
  /// `now` is the store's clock. The writer and the reader call it.
  file_store(std::string path, const sqlite_options& options, store_state::read_clock now)
      : state_{std::move(path), options, std::move(now)} {}
  ~file_store() override;

  int open(timer_service& timers) noexcept override;
  void close() noexcept override;
  std::string_view problem() const noexcept override;

  void join(join_call& call) noexcept override { push(verb::join, call); }
  void renew(renew_call& call) noexcept override { push(verb::renew, call); }
  void bury(bury_call& call) noexcept override { push(verb::bury, call); }
  void acquire(acquire_call& call) noexcept override { push(verb::acquire, call); }
  void release(release_call& call) noexcept override { push(verb::release, call); }
  void load(load_call& call) noexcept override { push(verb::load, call); }
  void begin(begin_call& call) noexcept override { push(verb::begin, call); }
  void finish(finish_call& call) noexcept override { push(verb::finish, call); }
  void recover(recover_call& call) noexcept override { push(verb::recover, call); }
  void put(put_call& call) noexcept override { push(verb::put, call); }
  void cancel(cancel_call& call) noexcept override { push(verb::cancel, call); }
  void revive(revive_call& call) noexcept override { push(verb::revive, call); }
  void get(get_call& call) noexcept override { push(verb::get, call); }
  void list(list_call& call) noexcept override { push(verb::list, call); }
  void purge(purge_call& call) noexcept override { push(verb::purge, call); }

 private:
  // all that lives while the store is open
  struct running {
    running(store_state& state, timer_service& timers)
        : answers{std::make_shared<outbox>(timers)}, writes{state, queues, *answers}, reads{state, queues, *answers} {}

    /// Starts both threads. Throws if the system has none.
    void start();
    /// Ends both threads.
    void stop() noexcept;

    std::shared_ptr<outbox> answers;
    work_queues queues;
    writer writes;
    reader reads;
    std::thread writer_thread, reader_thread;
    std::atomic<bool> reader_ended = false;
    const detail::fork_check fork;
  };

  const char* invalid_field() const noexcept;
  void push(verb, store_call&) noexcept;

  store_state state_;
  std::unique_ptr<running> running_;  // null: closed
  bool is_closing_ = false;
  call_list late_;  // made while it closes
  mutable std::string problem_;
};

}  // namespace tickwheel::durable::sqlite
