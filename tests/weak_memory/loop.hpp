// The smallest loop thread that speaks the protocol: the operations of timer_service, loop_driver and libuv on the post queue, without a
// wheel, a clock and a kernel. Below it are the public handles. Each function says which one it stands for.
#pragma once

#include "relacy_sync.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace tickwheel::weak_memory {

using node = detail::basic_posted_operation<relacy_sync>;
using post_queue = detail::basic_post_queue<relacy_sync>;
using detail::operation_state;

// A posted operation, and how it ended.
struct operation {
  plain<int> content{0};       // written by the thread that posts, then by the handler or the thread that cancelled
  plain<int> note_of_loop{0};  // written before the operation is to run; a thread that is told `ran` reads it
  plain<int> note_of_canceller{0};  // written before the first cancel; a thread that is told `cancelled` again reads it
  plain<int> captured{0};           // written by the thread that posts, then by the callable's destructor

  bool later = false;           // has a delay: it is armed, and fires at any time after that
  operation* before = nullptr;  // must have run before this one
  bool accepted = false;
  bool delivered = false;
  bool cancelled = false;
  bool closed = false;
  bool owns = rl::rand(2) == 0;  // its callable has a destructor
  int ran = 0;
  int destroyed = 0;
};

// A callable without a destructor, and one with a destructor.
struct trivial_callable {
  operation* of;
  void operator()() const noexcept {
    ++of->ran;
    RL_ASSERT(of->ran == 1 && !of->cancelled && !of->closed);
    RL_ASSERT(of->before == nullptr || of->before->ran == 1);
    of->content = 2;
  }
};
struct owning_callable : trivial_callable {
  explicit owning_callable(operation& o) : trivial_callable{&o} {}
  owning_callable(owning_callable&& from) noexcept : trivial_callable{std::exchange(from.of, nullptr)} {}
  ~owning_callable() {
    if (of == nullptr) return;
    ++of->destroyed;
    RL_ASSERT(of->destroyed == 1);
    of->captured = 2;
  }
};

// The data that the threads of a scenario share, and the data that only the test knows.
struct scene {
  static constexpr int others = 2;  // threads besides the loop's

  operation operations[others][2];
  plain<int> note_of_close{0};              // written by the loop thread before it closes
  plain<int> last_words[others]{{0}, {0}};  // written by each other thread before it releases its hold

  int max_queued = 4;
  int busy = 0;  // other threads that go on without help from the loop
  int holds = 0;
  int queued = 0;  // accepted and not delivered

  // Returns true if nothing wakes the loop without a request: no other thread goes on, and an operation has not been delivered.
  bool needs_request() const {
    if (busy != 0) return false;
    for (const auto& of_one : operations)
      for (const operation& o : of_one)
        if (o.accepted && !o.delivered) return true;
    return false;
  }
};

inline void let_others_run() { rl::ctx().sched(); }

class loop final : public driver {
 public:
  // timer_service::start
  explicit loop(scene& s) : scene_{s}, queue_{post_queue::make(static_cast<std::size_t>(s.max_queued), max_unended)} {
    queue_->open(*this);
  }
  // timer_service::~timer_service
  ~loop() {
    close();
    queue_->release();
  }

  // timer_service::remote
  post_queue& queue() const { return *queue_; }
  void given_hold() { has_holds_ = true; }

  // uv_run with UV_RUN_DEFAULT
  void run() {
    while (is_alive()) turn(true);
  }

  // an iteration of uv_run: prepare, poll, check, as in loop_driver::on_prepare and on_check
  void turn(bool may_wait) {
    if (!pass_due_ && is_due()) pass_due_ = true;
    const bool stamped = pass_due_;
    poll(may_wait && !pass_due_);
    if (!stamped) return;
    pass_due_ = false;
    pass();
  }

  // timer_service::close
  void close() {
    if (closed_) return;
    scene_.note_of_close = 1;
    closed_ = true;
    node* ended = nullptr;
    posted_.append(queue_->close());
    while (link* l = posted_.pop()) end(node::of(*l), ended);
    while (armed_count_ != 0) end(*armed_[0], ended);
    handle_open_ = false;            // driver::unbind: uv_close
    while (node* const n = ended) {  // ended_operations
      ended = n->next_ended();
      n->destroy_callable();
      n->release();
    }
  }

  std::uint64_t ran() const { return ran_; }
  std::uint64_t withdrawn() const { return withdrawn_; }
  std::uint64_t cancelled() const { return cancelled_; }

  // --- driver ---

  // loop_driver::request_pass and uv_async_send. libuv's flag is sequentially consistent except for the first read. Here all is relaxed, so
  // the request makes nothing visible to the loop.
  void request_pass() noexcept override {
    RL_ASSERT(handle_open_);
    if (pending_.load(rl::mo_relaxed, RL_INFO) != 0) return;
    if (pending_.exchange(1, rl::mo_relaxed, RL_INFO) != 0) return;
    descriptor_.store(1, rl::mo_relaxed, RL_INFO);
  }
  clock::time_point now() noexcept override { return {}; }
  bool on_steady_clock() const noexcept override { return true; }
  const std::uint64_t* epoch() const noexcept override { return nullptr; }
  clock::time_point poll_ended_at() const noexcept override { return {}; }
  void wake_at(clock::time_point) noexcept override {}
  void continue_pass() noexcept override { pass_due_ = true; }
  void cancel_wakeup() noexcept override {}
  void hold_loop(bool) noexcept override {}
  bool owns(const uv_handle_s*) const noexcept override { return false; }

 private:
  static constexpr std::size_t max_unended = 8;

  using link = detail::basic_inbox_link<relacy_sync>;

  // the first member of each callable
  static operation& operation_of(node& n) { return **reinterpret_cast<operation**>(n.callable); }

  // timer_service::is_to_be_held
  bool is_alive() const { return armed_count_ != 0 || has_holds_ || !posted_.empty(); }

  // timer_service::due. Whether a timer is due is chosen at random.
  bool is_due() const { return (armed_count_ != 0 && rl::rand(2) == 0) || !posted_.empty() || !queue_->seems_empty(); }

  // uv__io_poll, uv__async_io and loop_driver::on_async. A timer or some other event may end a wait at any time. If nothing
  // is left that could end it, a wakeup was lost.
  void poll(bool may_wait) {
    if (may_wait && rl::rand(4) == 0 && other_events_ != 0) {
      --other_events_;
      may_wait = false;
    }
    for (;;) {
      if (descriptor_.exchange(0, rl::mo_relaxed, RL_INFO) != 0) break;
      if (!may_wait || has_deadline()) return;
      const bool wakeup_was_lost =
          scene_.needs_request() || (scene_.busy == 0 && (armed_count_ != 0 || (has_holds_ && scene_.holds == 0)));
      RL_ASSERT(!wakeup_was_lost);
    }
    if (pending_.exchange(0, rl::mo_relaxed, RL_INFO) != 0) pass_due_ = true;
  }

  // An armed timer ends a wait. The deadline of a cancelled one counts as far away: its notice has to come first.
  bool has_deadline() const {
    for (std::size_t i = 0; i != armed_count_; ++i)
      if (!operation_of(*armed_[i]).cancelled) return true;
    return false;
  }

  // timer_service::pass. The bound on its work is chosen at random, and whether the wheel or a delivery has the next turn.
  void pass() {
    take();
    for (unsigned work = 1 + rl::rand(4);; --work) {
      const bool fires = armed_count_ != 0 && rl::rand(2) == 0;
      if (posted_.empty() && !fires) {
        if (!queue_->sleep()) continue_pass();
        return;
      }
      if (work == 0) {
        continue_pass();
        return;
      }
      if (fires)
        fire(*armed_[rl::rand(static_cast<unsigned>(armed_count_))]);
      else
        deliver();
    }
  }

  // post_delivery::take
  void take() {
    if (has_holds_) {
      has_holds_ = queue_->has_holds();
      // `take_all` has to take all that was posted before the last release. Relacy's exchange always finds the newest value.
      // The standard guarantees it only if the release happens before it, so this asks for that edge.
      if (!has_holds_)
        for (const plain<int>& words : scene_.last_words) words.read();
    }
    posted_.append(queue_->take_all());
  }

  // post_delivery::deliver
  void deliver() {
    link* const l = posted_.pop();
    node& n = node::of(*l);
    if (n.delivered) {
      settle_notice(n);
      return;
    }
    n.delivered = true;
    queue_->count_delivered();
    --scene_.queued;
    operation_of(n).delivered = true;
    if (static_cast<clock::time_point>(n.due) > clock::time_point{}) {
      arm(n);
      return;
    }
    operation_of(n).note_of_loop = 1;
    if (n.change_by_loop(operation_state::queued, operation_state::ran))
      run_callable(n);
    else
      withdraw(n);
  }

  // post_delivery::arm
  void arm(node& n) {
    if (!n.change_by_loop(operation_state::queued, operation_state::armed)) {
      withdraw(n);
      return;
    }
    armed_[armed_count_++] = &n;
  }

  // post_delivery::fire
  void fire(node& n) {
    disarm(n);
    operation_of(n).note_of_loop = 1;
    if (n.change_by_loop(operation_state::armed, operation_state::ran)) {
      run_callable(n);
      return;
    }
    ++withdrawn_;
    queue_->count_ended();
    // post_delivery::abandon
    if (!n.owns) {
      n.abandon();
      return;
    }
    n.retain();
    n.abandon();
    n.destroy_callable();
    n.release();
  }

  // post_delivery::disarm
  void disarm(node& n) {
    std::size_t i = 0;
    while (armed_[i] != &n) RL_ASSERT(++i < armed_count_);
    armed_[i] = armed_[--armed_count_];
  }

  // post_delivery::settle_notice
  void settle_notice(node& n) {
    if (n.is_abandoned()) {
      n.release();
      return;
    }
    disarm(n);
    withdraw(n);
  }

  // post_delivery::withdraw
  void withdraw(node& n) {
    ++withdrawn_;
    queue_->count_ended();
    n.destroy_callable();
    n.release();
  }

  // post_delivery::run
  void run_callable(node& n) {
    ++ran_;
    queue_->count_ended();
    n.run();
    n.release();
  }

  // post_delivery::end
  void end(node& n, node*& ended) {
    if (n.delivered) {
      if (n.is_abandoned()) {
        n.release();
        return;
      }
      disarm(n);
    }
    operation& o = operation_of(n);
    const operation_state from = n.delivered ? operation_state::armed : operation_state::queued;
    if (n.change_by_loop(from, operation_state::closed)) {
      ++cancelled_;
      o.closed = true;
    } else {
      ++withdrawn_;
    }
    if (!n.owns) {
      n.release();
      return;
    }
    n.begin_list();
    n.next_ended() = ended;
    ended = &n;
  }

  scene& scene_;
  post_queue* const queue_;
  detail::basic_inbox_chain<relacy_sync> posted_;
  node* armed_[8] = {};
  std::size_t armed_count_ = 0;
  bool has_holds_ = false;
  bool pass_due_ = false;
  bool closed_ = false;
  int other_events_ = 2;
  std::uint64_t ran_ = 0;
  std::uint64_t withdrawn_ = 0;
  std::uint64_t cancelled_ = 0;

  // libuv's
  plain<bool> handle_open_{true};
  rl::atomic<int> pending_{0};
  rl::atomic<int> descriptor_{0};
};

// remote_timer
class timer_on_other_thread {
 public:
  timer_on_other_thread() = default;
  ~timer_on_other_thread() { release(); }

  void own(node& n, post_queue& queue) {
    node_ = &n;
    queue_ = &queue;
    queue.retain();
  }
  // remote_timer::cancel
  operation_state cancel() { return queue_->cancel(*node_); }
  // remote_timer::release
  void release() {
    if (node_ == nullptr) return;
    node_->release();
    queue_->release();
    node_ = nullptr;
  }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  node* node_ = nullptr;
  post_queue* queue_ = nullptr;
};

// remote_handle
class handle {
 public:
  explicit handle(post_queue& queue) : queue_{&queue} { queue.retain(); }
  handle(const handle& from) : handle{*from.queue_} {}
  handle& operator=(const handle&) = delete;
  ~handle() { queue_->release(); }

  // remote_handle::submit
  int post(scene& s, operation& o, timer_on_other_thread* out = nullptr) const {
    node* n = nullptr;
    if (const int error = queue_->reserve(o.later ? clock::time_point::max() : clock::time_point::min(), n))
      return error;
    owning_callable call{o};
    o.captured = 1;
    if (o.owns)
      n->hold<owning_callable>(std::move(call));
    else
      n->hold<trivial_callable>(trivial_callable{std::exchange(call.of, nullptr)});
    if (out != nullptr) n->references.store(2, std::memory_order_relaxed);
    RL_ASSERT(++s.queued <= s.max_queued);
    if (!queue_->push(*n)) {
      --s.queued;
      if (o.owns) {
        n->give_back<owning_callable>(std::move(call));
        RL_ASSERT(call.of == &o);
        call.of = nullptr;
      }
      queue_->discard(*n);
      return UV_ECANCELED;
    }
    o.accepted = true;
    if (out != nullptr) out->own(*n, *queue_);
    return 0;
  }

 private:
  post_queue* const queue_;
};

// remote_hold
class hold {
 public:
  // on the loop thread: timer_service::hold
  hold(scene& s, loop& l) : hold{s, l.queue()} { l.given_hold(); }
  hold(const hold& from) : hold{from.scene_, *from.queue_} {}
  hold& operator=(const hold&) = delete;
  ~hold() { release(); }

  void release() {
    if (queue_ == nullptr) return;
    --scene_.holds;
    queue_->drop_hold();
    queue_->release();
    queue_ = nullptr;
  }

 private:
  hold(scene& s, post_queue& queue) : scene_{s}, queue_{&queue} {
    queue.retain();
    queue.add_hold();
    ++s.holds;
  }

  scene& scene_;
  post_queue* queue_;
};

}  // namespace tickwheel::weak_memory
