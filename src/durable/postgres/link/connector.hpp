// Makes the connections of a store, and makes them anew when one is lost.
#pragma once

#include "../../fork_check.hpp"
#include "../../standing_timer.hpp"
#include "host_names.hpp"
#include "link.hpp"
#include "node_state.hpp"

#include <tickwheel/net/backoff.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

/// Keeps all links connected, or none. Before they are used it ends the backends of all connections before, and waits until
/// these are gone: what they were asked to do takes no effect afterwards.
///
/// *Thread safety:* the loop thread. *Errors:* `client`; the next try follows after a pause.
class connector final : private link::client, private host_names::client {
 public:
  class client {
   public:
    /// All links are set up. No former connection is left.
    virtual void on_up() noexcept = 0;
    /// A try has failed. `uv_code`: as `failure::uv_code`.
    virtual void on_failed(const failure&, int uv_code) noexcept = 0;
    /// All links are closed, because one was lost.
    virtual void on_down(const failure&) noexcept = 0;
    /// The backends of all former connections are gone.
    virtual void on_former_gone() noexcept = 0;
    virtual void on_transaction(link&, transaction&) noexcept = 0;
    virtual void on_notification(std::string_view payload) noexcept = 0;
    /// The server has a setting that breaks a promise.
    virtual void on_warning(const std::string&) noexcept = 0;

   protected:
    ~client() = default;
  };

  connector(timer_service&, uv_loop_t&, const std::string& conninfo, node_state&, client&) noexcept;
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  /// Takes what it needs for later. Returns as `standing_timer::open`.
  [[nodiscard]] int open() noexcept { return timer_.open(); }
  /// Connects, unless it does already.
  void start() noexcept;
  /// Closes all links, and calls nobody.
  void stop() noexcept;
  /// Gives the connections up, as if one was lost.
  void drop(const failure&) noexcept;
  bool is_up() const noexcept { return step_ == step::up; }

  /// Returns true if the last script of a link failed.
  bool has_script_failed() const noexcept { return has_script_failed_; }

  std::span<link> links() noexcept { return links_; }
  link& clock_link() noexcept { return links_.back(); }

 private:
  enum class step {
    stopped,
    pausing,   // until the next try
    names,     // of the hosts
    clock,     // connects
    settings,  // of the clock link
    look,
    meta,
    make,
    end,   // the former backends
    lift,  // the counter of revisions
    statements,
    others,  // connects the other links
    number,  // registers the links
    up
  };

  void on_connected(link&) noexcept override;
  void on_script(link&, const std::vector<result>&, const failure&) noexcept override;
  void on_transaction(link& on, transaction& t) noexcept override { client_.on_transaction(on, t); }
  void on_lost(link&, const failure&) noexcept override;
  void on_notification(link&, std::string_view payload) noexcept override;

  void on_resolved(host_list) noexcept override;
  void on_unresolved(const std::string& why) noexcept override;

  void try_to_connect() noexcept;
  void connect(link&) noexcept;
  void run(step, const std::string& script) noexcept;
  void on_settings(link&, const rows&) noexcept;
  void on_looked(const rows&) noexcept;
  void on_meta(const rows&) noexcept;
  void refuse_rights(const std::string& of_server) noexcept;
  void on_made(const failure&) noexcept;
  void end_former() noexcept;
  void on_other_script(link&) noexcept;
  void fail(const failure&) noexcept;
  void close_links() noexcept;
  void on_timer() noexcept;
  tickwheel::clock::time_point now() noexcept;

  timer_service& timers_;
  uv_loop_t& loop_;
  const std::string& conninfo_;
  node_state& state_;
  client& client_;
  std::array<link, 4> links_;
  host_names names_;
  host_list hosts_;
  durable::detail::standing_timer<&connector::on_timer> timer_;
  backoff pauses_;
  const durable::detail::fork_check fork_;
  step step_ = step::stopped;
  tickwheel::clock::time_point give_up_at_{};
  tickwheel::clock::time_point last_reading_{};
  bool has_schema_ = false;
  bool has_warned_ = false;
  bool has_script_failed_ = false;
  int version_ = 0;
  std::int64_t server_ = 0;  // the time of its start
  std::size_t tries_ = 0;    // that have failed
  unsigned made_ = 0;        // times that this try has made tables
  unsigned prepared_ = 0;    // other links
};

}  // namespace tickwheel::durable::postgres
