// A connection on a libuv loop. It never waits.
#pragma once

#include "../../fork_check.hpp"
#include "../sql/failure.hpp"
#include "../sql/rows.hpp"
#include "../sql/statements.hpp"
#include "../sql/transaction.hpp"

#include <libpq-fe.h>
#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tickwheel::durable::postgres {

/// Connects, and then runs one script or transaction at a time.
///
/// A script is text without parameters, for setting the connection up. A transaction runs in pipeline mode: prepared statements,
/// then a sync. Nothing that the server says of it is believed before the sync has been answered: rows arrive before their
/// commit. A commit whose wait for the synchronous standby was cancelled counts as a lost connection: a failover may lose it.
///
/// *Thread safety:* the loop thread. *Errors:* `client::on_lost`. *Lifetime:* a callback of the client may close it.
class link {
 public:
  class client {
   public:
    virtual void on_connected(link&) noexcept = 0;
    /// A script has ended. One that failed has an error, and its transaction may still be open.
    virtual void on_script(link&, const std::vector<result>&, const failure& error) noexcept = 0;
    /// The sync of a transaction was answered.
    virtual void on_transaction(link&, transaction&) noexcept = 0;
    /// The connection could not be made, or has ended. The link is closed.
    virtual void on_lost(link&, const failure&) noexcept = 0;
    /// Another client has sent a notification.
    virtual void on_notification(link&, std::string_view payload) noexcept = 0;

   protected:
    ~client() = default;
  };

  link(client& of, link_role role) noexcept : client_{of}, role_{role} {}
  ~link() { close(); }
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  link_role role() const noexcept { return role_; }

  /// Connects. Null-terminated keywords and values, as PQconnectStartParams has them. Requires: it is closed.
  void connect(uv_loop_t& loop, const char* const* keywords, const char* const* values) noexcept;
  /// Ends the connection at once, and calls nobody. A statement that was sent may still take effect.
  void close() noexcept;

  bool is_open() const noexcept { return connection_ != nullptr; }
  /// Returns true if it is connected, and runs nothing.
  bool is_idle() const noexcept { return is_open() && phase_ == phase::idle; }
  /// Returns true if something was sent whose answer is not there.
  bool is_running() const noexcept { return phase_ == phase::script || phase_ == phase::pipeline; }
  int server_version() const noexcept { return PQserverVersion(connection_.get()); }

  /// Returns the backend's process, as the server said when the connection was made.
  int pid() const noexcept { return PQbackendPID(connection_.get()); }

  /// Requires: it is idle.
  void run(const std::string& script) noexcept;
  void run(transaction&) noexcept;

  /// Waits for the answer of what runs, and calls the client as the loop would. An answer that is there is taken also after the deadline.
  /// Returns false if there is none until then.
  bool wait(std::chrono::steady_clock::time_point deadline) noexcept;

 private:
  enum class phase { closed, connecting, idle, script, pipeline };
  struct finish {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
  };

  void go_on_connecting() noexcept;
  void watch(int events) noexcept;
  void unwatch() noexcept;
  void on_ready() noexcept;
  void flush() noexcept;
  void take_results() noexcept;
  bool take_result(PGresult*) noexcept;
  void lose(failure) noexcept;
  void take_notice(const PGresult&) noexcept;

  client& client_;
  const link_role role_;
  uv_loop_t* loop_ = nullptr;
  std::unique_ptr<PGconn, finish> connection_;
  uv_poll_t* poll_ = nullptr;  // frees itself when it is closed
  int watched_ = 0;            // the events
  phase phase_ = phase::closed;
  std::uint64_t openings_ = 0;  // changes when the link is closed
  transaction* running_ = nullptr;
  durable::detail::fork_check fork_;  // since it began to connect
  failure farewell_;                  // the server's reason to end the session
  failure lone_commit_;  // the server's warning of a commit that has not waited for the synchronous standby
  std::vector<result> script_results_;
  failure script_error_;
};

}  // namespace tickwheel::durable::postgres
