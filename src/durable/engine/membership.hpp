// Keeps this node a member of its store: its session, its share of the partitions, and the burial of dead nodes.
#pragma once

#include "../fork_check.hpp"
#include "../standing_timer.hpp"

#include <tickwheel/durable/scheduler_options.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/net/backoff.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tickwheel::durable::detail {

/// Joins, renews, shares and recovers, one call of each verb at a time.
///
/// A node that stops renewing starts nothing once 80 % of its lease have passed. Others bury it when its lease has expired and they have
/// seen no renewal of it for half of that lease. A whole lease without one also suffices, because the store's clock may have been set
/// back. After an outage of more than half of the lease, a whole lease must pass without one (`sighting::pass`). A new node has seen no
/// outage: it gives a whole lease to those only whose lease has run out when it looks first.
class membership {
 public:
  using steady_time = tickwheel::clock::time_point;

  /// The part of the engine that it calls.
  class client {
   public:
    virtual void on_answer(const store_call&) noexcept = 0;
    /// A renewal that was sent at `sent` has found the store's clock at `store_now`.
    virtual void on_renewed(clock::time_point store_now, steady_time sent) noexcept = 0;
    /// It has joined, or never can (a UV_ code).
    virtual void on_joined(int error) noexcept = 0;
    /// Another node has buried this one. It joins again.
    virtual void on_session_lost() noexcept = 0;
    /// It owns more partitions than before.
    virtual void on_partitions_gained() noexcept = 0;
    /// `recover` has made tasks of lost nodes pending, or dead.
    virtual void on_recovered(std::uint64_t tasks) noexcept = 0;
    /// Ids are no longer doubted: their tasks may be pending again.
    virtual void on_given_back() noexcept = 0;
    /// After `leave`: it owns no partition any more.
    virtual void on_left() noexcept = 0;

   protected:
    ~client() = default;
  };

  membership(timer_service&, client&) noexcept;
  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;

  /// Call it before `open`. Returns false if the service has no place for a timer.
  [[nodiscard]] bool open_timer() noexcept { return next_.open() == 0; }
  /// Joins `tasks`. `is_starting`: it wants partitions.
  void open(store& tasks, const scheduler_options&, const std::string& name, bool is_starting, std::uint64_t seed);
  /// Forgets everything, and changes no call: the store has not answered all of them yet. The answers have no effect.
  void close() noexcept;

  bool is_joined() const noexcept { return session_ != 0; }
  session_number session() const noexcept { return session_; }
  bool owns(partition_number p) const noexcept { return p < owned_.size() && owned_[p]; }
  /// Returns the partitions that it owns, by number.
  std::vector<partition_number> partitions() const;
  std::size_t partition_count() const noexcept { return owned_count_; }
  /// Returns the number of dead tasks as of the last renewal.
  std::uint64_t dead() const noexcept { return dead_; }

  /// Returns true if a task may be begun at `now`.
  bool may_start(steady_time now) const noexcept { return is_joined() && now < safe_until(renewed_from_); }
  /// Returns the end of the time in which a start may be handed out that was begun at `from`.
  steady_time safe_until(steady_time from) const noexcept { return from + lease_ / 10 * 8; }

  /// The store may have begun `id` in this session, and nobody runs it: the next recovery gives it back. Until the store has confirmed
  /// that, `id` must not be begun again: a repeated recovery would give it back once more.
  void doubt(std::string id) { doubted_.insert(std::move(id)); }
  bool is_doubted(const std::string& id) const noexcept { return doubted_.contains(id); }
  std::size_t doubts() const noexcept { return doubted_.size(); }
  bool has_doubts() const noexcept { return !doubted_.empty(); }
  /// Looks for running tasks that nobody runs: now, or as soon as an earlier look has been answered. Not urgent: nothing says that
  /// there is one.
  void recover(bool is_urgent = true);

  /// Renews now, to learn of partitions that it was handed, or that are free.
  void look() noexcept;

  /// Hands its partitions over, and takes none any more.
  void leave();

 private:
  /// A call of which one at a time is with the store.
  template <class Call>
  struct single final : Call {
    using handler = void (membership::*)() noexcept;
    single(membership& of, handler answered) noexcept : Call{&answer_arrived}, owner{of}, on_answered{answered} {}
    static void answer_arrived(store_call& c) noexcept {
      auto& self = static_cast<single&>(static_cast<Call&>(c));
      self.is_busy = false;
      if (self.owner.tasks_ == nullptr) return;
      self.owner.client_.on_answer(self);
      (self.owner.*self.on_answered)();
    }
    bool is_ok() const noexcept { return this->status == store_status::ok; }
    membership& owner;
    handler on_answered;
    bool is_busy = false;
  };

  // Another node, as this one has seen it.
  struct sighting {
    std::uint64_t beat = 0;
    std::chrono::nanoseconds silent{};  // since this beat was seen first
    bool was_outage = false;            // meanwhile, and the silence before its end does not count
    std::uint8_t outages_in_a_row = 0;

    /// `gap` has passed since the look before. `lease`: that of the node.
    void pass(std::chrono::nanoseconds gap, std::chrono::nanoseconds lease) noexcept;
  };

  void join();
  void renew();
  void on_timer() noexcept;
  void on_join_answered() noexcept;
  void on_renew_answered() noexcept;
  void on_bury_answered() noexcept;
  void on_acquire_answered() noexcept;
  void on_release_answered() noexcept;
  void on_recover_answered() noexcept;
  std::chrono::nanoseconds bury_the_dead();
  void bury(const store_node&);
  void look_after_changes() noexcept;
  void look_soon() noexcept;
  void share();
  void release(std::size_t surplus, session_number to);
  void release_all();
  void send_release();
  void check_left() noexcept;
  void set_owned(const std::vector<partition_number>&);
  void gain(const std::vector<partition_number>&);

  timer_service& timers_;
  client& client_;
  store* tasks_ = nullptr;
  standing_timer<&membership::on_timer> next_;
  fork_check fork_;  // since it was opened

  std::chrono::nanoseconds lease_{};
  bool is_starting_ = false;
  bool has_joined_ = false;  // since it was opened
  bool is_leaving_ = false;
  bool has_left_ = false;
  bool looks_again_ = false;          // after the renewal in flight
  bool looks_after_changes_ = false;  // after the calls in flight that change which partitions it owns
  bool is_known_to_leave_ = false;    // a renewal has told the store that it takes no partition
  unsigned max_attempts_ = 0;
  backoff retry_;
  backoff soon_;  // after a burial, an acquire or a release has failed

  session_number session_ = 0;
  steady_time sent_at_{};       // when the join or renewal in flight was sent
  steady_time renewed_from_{};  // when the last one that was confirmed was sent
  std::vector<bool> owned_;
  std::size_t owned_count_ = 0;
  std::uint64_t dead_ = 0;
  std::uint64_t changes_ = 0;       // of the partitions that it owns
  std::uint64_t changes_then_ = 0;  // when the renewal in flight was sent
  std::map<session_number, sighting> others_;
  steady_time seen_at_{};  // when a renewal last told of them
  std::set<std::string> doubted_;
  bool must_recover_ = false;  // again, because the last recovery has failed, or began too early

  single<join_call> join_{*this, &membership::on_join_answered};
  single<renew_call> renew_{*this, &membership::on_renew_answered};
  single<bury_call> bury_{*this, &membership::on_bury_answered};
  single<acquire_call> acquire_{*this, &membership::on_acquire_answered};
  single<release_call> release_{*this, &membership::on_release_answered};
  single<recover_call> recover_{*this, &membership::on_recover_answered};
};

}  // namespace tickwheel::durable::detail
