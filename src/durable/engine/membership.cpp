#include "membership.hpp"

#include "present.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tickwheel::durable::detail {

using namespace std::chrono_literals;

namespace {

constexpr backoff_options between_tries{.base = 20ms, .cap = 1s};

}  // namespace

membership::membership(timer_service& timers, client& of) noexcept
    : timers_{timers}, client_{of}, next_{timers, *this}, retry_{between_tries, 1}, soon_{between_tries, 1} {}

void membership::open(store& tasks, const scheduler_options& options, const std::string& name, bool is_starting,
                      std::uint64_t seed) {
  tasks_ = &tasks;
  fork_ = {};
  lease_ = options.lease;
  is_starting_ = is_starting;
  has_joined_ = is_leaving_ = has_left_ = false;
  looks_again_ = looks_after_changes_ = is_known_to_leave_ = false;
  release_.partitions.clear();
  max_attempts_ = options.max_attempts;
  retry_ = backoff{between_tries, seed};
  soon_ = backoff{{.base = between_tries.base, .cap = std::max(between_tries.base, lease_ / 4)}, seed};
  join_.name = name;
  join_.lease = options.lease;
  join_.keep_finished = options.keep_finished;
  join();
}

void membership::close() noexcept {
  next_.close();
  tasks_ = nullptr;
  session_ = 0;
  owned_.clear();
  owned_count_ = 0;
  others_.clear();
  seen_at_ = {};
  doubted_.clear();
  must_recover_ = false;
  ++changes_;
}

std::vector<partition_number> membership::partitions() const {
  std::vector<partition_number> mine;
  mine.reserve(owned_count_);
  for (std::size_t p = 0; p != owned_.size(); ++p)
    if (owned_[p]) mine.push_back(static_cast<partition_number>(p));
  return mine;
}

void membership::on_timer() noexcept {
  if (fork_.is_in_child()) return;
  is_joined() ? renew() : join();
}

void membership::look() noexcept {
  if (!is_joined()) return;
  looks_again_ = renew_.is_busy;
  if (!renew_.is_busy) next_.set_at_latest(std::chrono::nanoseconds::zero());
}

// A call has failed that the next renewal sends again. By itself that may be a quarter of a lease away.
void membership::look_soon() noexcept { next_.set_at_latest(soon_.next()); }

// A renewal that overlaps a change cannot tell which partitions it owns. Others may have handed it some, or freed them.
void membership::look_after_changes() noexcept {
  if (acquire_.is_busy || release_.is_busy || !release_.partitions.empty()) return;
  if (std::exchange(looks_after_changes_, false)) look();
}

void membership::join() {
  if (join_.is_busy) return;
  join_.is_busy = true;
  join_.error = 0;
  sent_at_ = present(timers_);
  tasks_->join(join_);
}

void membership::on_join_answered() noexcept {
  // a node that was a member once goes on trying
  if (!join_.is_ok() || (join_.error != 0 && has_joined_)) {
    next_.set(retry_.next());
    check_left();
    return;
  }
  if (join_.error != 0) {
    client_.on_joined(join_.error);
    return;
  }
  has_joined_ = true;
  is_known_to_leave_ = false;
  retry_.reset();
  session_ = join_.session;
  renewed_from_ = sent_at_;
  owned_.assign(join_.partitions, false);
  owned_count_ = 0;
  doubted_.clear();
  if (!release_.is_busy) release_.partitions.clear();  // otherwise the store may be reading it
  ++changes_;
  client_.on_joined(0);
  renew();
}

void membership::renew() {
  if (renew_.is_busy) return;
  renew_.is_busy = true;
  renew_.session = session_;
  renew_.lease = lease_;
  renew_.is_starting = is_starting_ && !is_leaving_;
  renew_.nodes.clear();
  renew_.partitions.clear();
  changes_then_ = changes_;
  sent_at_ = present(timers_);
  tasks_->renew(renew_);
}

void membership::on_renew_answered() noexcept {
  if (!renew_.is_ok()) {
    next_.set(std::min(retry_.next(), lease_ / 4));
    return;
  }
  retry_.reset();
  client_.on_renewed(renew_.now, sent_at_);
  if (renew_.is_buried) {
    session_ = 0;
    owned_.clear();
    owned_count_ = 0;
    client_.on_session_lost();
    join();
    check_left();
    return;
  }
  renewed_from_ = sent_at_;
  dead_ = renew_.dead;
  looks_after_changes_ =
      changes_then_ != changes_ || acquire_.is_busy || release_.is_busy || !release_.partitions.empty();
  // from then on nobody hands it partitions, and it knows those that it was handed before
  is_known_to_leave_ = !renew_.is_starting && (is_known_to_leave_ || !looks_after_changes_);
  if (!looks_after_changes_) set_owned(renew_.partitions);
  const auto next = std::min(bury_the_dead(), lease_ / 4);
  next_.set(std::exchange(looks_again_, false) ? std::chrono::nanoseconds::zero() : next);
  send_release();  // again, if its answer was lost
  share();
  look_after_changes();
}

// The store knows which partitions are owned, also after an answer of it was lost.
void membership::set_owned(const std::vector<partition_number>& mine) {
  const auto before = partitions();
  std::vector<partition_number> gained;
  std::set_difference(mine.begin(), mine.end(), before.begin(), before.end(), std::back_inserter(gained));
  owned_.assign(owned_.size(), false);
  owned_count_ = 0;
  for (const partition_number p : mine) {
    if (p >= owned_.size() || owned_[p]) continue;
    owned_[p] = true;
    ++owned_count_;
  }
  if (gained.empty()) return;
  recover();
  client_.on_partitions_gained();
}

// If we could not look for more than half of its lease, the store may not have answered that node either, and the first node that it
// answers would bury those that live. So silence counts from the end of such an outage, and must last for a whole lease: one that
// was not let in yet needs time. Later outages do not count either, but the silence between them does. If one follows the other, the
// store is always so slow, and a quarter of a lease counts for each from the third on: a dead node is buried nevertheless.
void membership::sighting::pass(std::chrono::nanoseconds gap, std::chrono::nanoseconds lease) noexcept {
  if (gap <= lease / 2) {
    outages_in_a_row = 0;
    silent += gap;
    return;
  }
  if (!std::exchange(was_outage, true)) silent = {};
  if (outages_in_a_row < 2)
    ++outages_in_a_row;
  else
    silent += lease / 4;
}

// Returns when a node that is silent now will count as dead, so that a burial need not wait for the next renewal. A node whose lease
// is shorter than ours renews more often than we do, so we look four times in its lease: its last renewal is then seen in time.
//
// At the first look a lease that has run out may have done so in an outage.
std::chrono::nanoseconds membership::bury_the_dead() {
  constexpr std::chrono::nanoseconds behind = 1ms;
  const auto now = present(timers_);
  const bool is_first_look = seen_at_ == steady_time{};
  const auto gap = is_first_look ? std::chrono::nanoseconds::zero() : now - seen_at_;
  seen_at_ = now;
  auto next = std::chrono::nanoseconds::max();
  const store_node* to_bury = nullptr;
  std::map<session_number, sighting> seen;
  for (const store_node& node : renew_.nodes) {
    if (node.session == session_) continue;
    const bool has_run_out = node.expires < renew_.now;
    sighting& s = seen[node.session] = {.beat = node.beat, .was_outage = is_first_look && has_run_out};
    const auto known = others_.find(node.session);
    const bool is_silent = known != others_.end() && known->second.beat == node.beat;
    if (is_silent) s = known->second;
    if (is_silent || gap > node.lease / 2) s.pass(gap, node.lease);
    const bool is_dead = s.silent >= node.lease || (s.silent >= node.lease / 2 && has_run_out && !s.was_outage);
    if (!is_dead) {
      const auto expired = std::max<std::chrono::nanoseconds>(node.lease / 2 - s.silent, node.expires - renew_.now);
      const auto whole = node.lease - s.silent;
      next = std::min({next, (s.was_outage ? whole : std::min(expired, whole)) + behind, node.lease / 4});
    }
    // in turn: the burial of one may fail again and again
    const bool is_next = node.session > bury_.session && (to_bury == nullptr || to_bury->session <= bury_.session);
    if (is_dead && (to_bury == nullptr || is_next)) to_bury = &node;
  }
  if (to_bury != nullptr && !bury_.is_busy) bury(*to_bury);
  // another node has buried it, or it has left
  const bool one_has_gone =
      std::any_of(others_.begin(), others_.end(), [&](const auto& o) { return !seen.contains(o.first); });
  others_ = std::move(seen);
  if (one_has_gone || must_recover_) recover();
  return next;
}

void membership::bury(const store_node& dead) {
  bury_.is_busy = true;
  bury_.session = dead.session;
  bury_.beat = dead.beat;
  bury_.is_buried = false;
  tasks_->bury(bury_);
}

void membership::on_bury_answered() noexcept {
  if (!is_joined()) return;
  if (!bury_.is_ok()) return look_soon();
  soon_.reset();
  if (bury_.is_buried) renew();
}

// At most ceil(partitions / starting nodes) each. The others leave a share to a node that leaves, until they know that it leaves. So it
// gives up nothing before.
void membership::share() {
  if (is_leaving_ && !is_known_to_leave_) return;
  const auto starting = static_cast<std::size_t>(
      std::count_if(renew_.nodes.begin(), renew_.nodes.end(), [](const store_node& n) { return n.is_starting; }));
  const std::size_t nodes = std::max<std::size_t>(starting, 1);
  const std::size_t fair = is_starting_ && !is_leaving_ ? (owned_.size() + nodes - 1) / nodes : 0;
  if (owned_count_ > fair) {
    session_number poorest = 0;
    std::size_t fewest = fair;
    for (const store_node& n : renew_.nodes) {
      if (n.session == session_ || !n.is_starting || n.partitions >= fewest) continue;
      poorest = n.session;
      fewest = n.partitions;
    }
    // A surplus that nobody lacks stays, but a node that starts nothing keeps none.
    const bool keeps_none = is_leaving_ || !is_starting_;
    if (poorest != 0 || keeps_none) {
      const std::size_t lacking = poorest != 0 ? fair - fewest : 0;
      release(keeps_none ? owned_count_ : std::min(owned_count_ - fair, lacking), poorest);
    }
  } else if (owned_count_ < fair && renew_.free_partitions != 0 && !acquire_.is_busy) {
    acquire_.is_busy = true;
    acquire_.session = session_;
    acquire_.limit = static_cast<std::uint16_t>(fair - owned_count_);
    acquire_.partitions.clear();
    ++changes_;
    tasks_->acquire(acquire_);
  }
}

void membership::on_acquire_answered() noexcept {
  ++changes_;
  look_after_changes();
  if (acquire_.session != session_) return;
  if (!acquire_.is_ok()) return look_soon();
  gain(acquire_.partitions);
  if (is_leaving_) return release_all();
  soon_.reset();
  if (acquire_.partitions.empty()) return;
  recover();
  client_.on_partitions_gained();
}

// It leaves. If the others do not know yet, the renewal that tells them comes first.
void membership::release_all() {
  if (is_known_to_leave_)
    release(owned_count_, 0);
  else
    look();
}

void membership::gain(const std::vector<partition_number>& more) {
  for (const partition_number p : more) {
    if (p >= owned_.size() || owned_[p]) continue;
    owned_[p] = true;
    ++owned_count_;
  }
}

void membership::release(std::size_t surplus, session_number to) {
  if (release_.is_busy || !release_.partitions.empty()) return;
  for (std::size_t p = owned_.size(); p-- != 0 && surplus != 0;) {
    if (!owned_[p]) continue;
    owned_[p] = false;
    --owned_count_;
    --surplus;
    release_.partitions.push_back(static_cast<partition_number>(p));
  }
  release_.to = to;
  send_release();
}

void membership::send_release() {
  if (release_.is_busy) return;
  if (release_.partitions.empty()) return check_left();
  release_.is_busy = true;
  release_.session = session_;
  ++changes_;
  tasks_->release(release_);
}

// Released again until the store has answered: giving up what is not owned has no effect.
void membership::on_release_answered() noexcept {
  ++changes_;
  if (release_.is_ok()) soon_.reset();
  if (release_.is_ok() || release_.session != session_) release_.partitions.clear();
  if (!release_.partitions.empty()) return look_soon();
  if (release_.to != 0 && !is_leaving_) look();  // others may lack some as well, and that node may have left meanwhile
  if (is_leaving_ && owned_count_ != 0) release_all();
  look_after_changes();
  check_left();
}

void membership::leave() {
  is_leaving_ = true;
  if (is_joined() && (owned_count_ != 0 || !is_known_to_leave_)) {
    look();  // tells the others, and shares
    return;
  }
  check_left();
}

// It has not left before the others know: they may hand it partitions until then.
void membership::check_left() noexcept {
  if (!is_leaving_ || has_left_ || owned_count_ != 0 || release_.is_busy || !release_.partitions.empty() ||
      acquire_.is_busy || join_.is_busy || (is_joined() && !is_known_to_leave_))
    return;
  has_left_ = true;
  client_.on_left();
}

void membership::recover(bool is_urgent) {
  if (!is_joined()) return;
  if (recover_.is_busy) {
    must_recover_ = must_recover_ || is_urgent;
    recover_.is_urgent = recover_.is_urgent || is_urgent;
    return;
  }
  must_recover_ = false;
  recover_.is_busy = true;
  recover_.is_urgent = is_urgent;
  recover_.session = session_;
  recover_.max_attempts = max_attempts_;
  recover_.doubted.assign(doubted_.begin(), doubted_.end());
  recover_.recovered = recover_.died = 0;
  tasks_->recover(recover_);
}

void membership::on_recover_answered() noexcept {
  if (!recover_.is_ok()) must_recover_ = true;  // after the next renewal
  if (!recover_.is_ok()) return;
  if (recover_.session == session_) {
    for (const std::string& id : recover_.doubted) doubted_.erase(id);
    client_.on_recovered(recover_.recovered + recover_.died);
    if (!recover_.doubted.empty()) client_.on_given_back();
  }
  if (must_recover_) recover();
}

}  // namespace tickwheel::durable::detail
