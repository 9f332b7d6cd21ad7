#include "host_pool.hpp"

#include "callback_dispatcher.hpp"

namespace timer_server {
namespace {

constexpr std::size_t most_waiting = 2;  // of a slow callee, times `connections_per_host`
constexpr int slow_for = 10;             // after a call has waited in vain, times `wait_timeout`

}  // namespace

void host_pool::enqueue(callback& c) noexcept {
  queue_.push_back(c);
  refile();
}

void host_pool::start_next() noexcept {
  callback& next = queue_.front();
  connection* const idle =
      idle_.empty() ? nullptr : &idle_.back();  // the one that was used last is the least likely to be closed
  next.start(idle);
  filed_in_ = nullptr;  // goes behind the other hosts
  refile();
}

void host_pool::on_free(connection& c) noexcept {
  const host_pool* const other = on_.has_place() ? nullptr : on_.next_in_need();
  if (other != nullptr && other->places() + 1 < places_) return c.close();
  idle_.push_back(c);
  on_.idle_.push_back(c);
  refile();
}

void host_pool::take_place() noexcept {
  ++places_;
  ++on_.places_;
  refile();
}

void host_pool::leave_place() noexcept {
  --places_;
  --on_.places_;
  refile();
}

void host_pool::remove_call() noexcept {
  --calls_;
  refile();
}

void host_pool::on_waited_in_vain() noexcept {
  slow_until_ = on_.timers().now() + slow_for * on_.options().wait_timeout;
}

bool host_pool::is_overrun() const noexcept {
  return calls_ >= (1 + most_waiting) * on_.options().connections_per_host && on_.timers().now() < slow_until_;
}

void host_pool::refile() noexcept {
  auto* right = static_cast<auto_list<host_pool, host_in_turn>*>(nullptr);
  if (is_unused())
    right = &on_.unused_;
  else if (!queue_.empty() && !idle_.empty())
    right = &on_.ready_;
  else if (!queue_.empty() && places_ < on_.options().connections_per_host)
    right = &on_.in_need_;
  if (filed_in_ == right && right != nullptr) return;
  auto_hook<host_in_turn>::unlink();
  filed_in_ = right;
  if (right != nullptr) right->push_back(*this);
}

}  // namespace timer_server
