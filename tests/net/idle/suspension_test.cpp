// A process that is stopped for seconds and goes on, as by a debugger, a job's control or a virtual machine that is moved:
// who had sent meanwhile survives, who is silent is evicted, intervals skip, nothing is early, and the statistics say so.
#include <tickwheel/net/idle_timeout.hpp>

#include "../../uv/support/child.hpp"
#include "../../uv/support/live_loop.hpp"
#include "../../uv/support/probe.hpp"

#include <csignal>

using tickwheel::timer_service;

namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds limit = 1s;     // of the peers' silence
constexpr nanoseconds stop = 2200ms;  // at least: the process may be kept from the processor, too
constexpr nanoseconds period = 50ms;  // of the interval
constexpr nanoseconds noise = 1s;     // what else the machine does

std::int64_t now_ns() { return tickwheel::clock::now().time_since_epoch().count(); }

/// When something happened, by the steady clock, which both processes share. 0: it did not.
using moment = std::int64_t;

/// What the child tells its parent, as it is, through a pipe.
struct findings {
  struct peer {
    moment started = 0, last_read = 0, evicted = 0;
    int reads = 0;
  };
  peer waiting;  // its bytes come during the stop
  peer prompt;   // its bytes come soon after it
  peer silent;
  moment gap_began = 0, gap_ended = 0;  // the longest time without a beat
  moment began = 0, last_beat = 0;      // of the interval
  int beats = 0;
  int early_beats = 0;
  int early = 0;  // of the timers
  int fired = 0;
  std::int64_t lateness_max = 0;
  std::uint64_t stalls = 0;
  std::int64_t stalled = 0;
};

/// A connection that touches its idle timeout when bytes come.
class connection {
 public:
  connection(live_loop& loop, timer_service& timers, const socket_pair& sockets, findings::peer& to)
      : sockets_{sockets}, to_{to}, timers_{timers}, idle_{timers, *this} {
    reader_ = &loop.on_readable(sockets.ours(), [this] {
      if (!sockets_.receive()) return;
      ++to_.reads;
      to_.last_read = timers_.now().time_since_epoch().count();
      idle_.touch();
    });
    to_.started = now_ns();
    EXPECT_EQ(idle_.start(limit), 0);
  }

 private:
  void on_idle() noexcept {
    to_.evicted = now_ns();
    reader_->close();
  }

  const socket_pair& sockets_;
  findings::peer& to_;
  timer_service& timers_;
  tickwheel::idle_timeout<&connection::on_idle> idle_;
  live_loop::hook* reader_ = nullptr;
};

class metronome {
 public:
  metronome(timer_service& timers, findings& to) : to_{to}, interval_{timers, *this} {
    to_.began = last_ = now_ns();  // at the latest when the interval begins
    EXPECT_EQ(interval_.start(period), 0);
    interval_.unref();
  }

 private:
  void on_beat() noexcept {
    const moment now = now_ns();
    ++to_.beats;
    to_.early_beats += now - to_.began < to_.beats * period.count();
    if (now - last_ > to_.gap_ended - to_.gap_began) {
      to_.gap_began = last_;
      to_.gap_ended = now;
    }
    to_.last_beat = last_ = now;
  }

  findings& to_;
  tickwheel::interval_timer<&metronome::on_beat> interval_;
  moment last_ = 0;
};

/// Armed again and again, with delays that end before, in and after the stop.
class checked {
 public:
  checked(timer_service& timers, nanoseconds delay, findings& to) : delay_{delay}, to_{to}, timeout_{timers, *this} {
    timeout_.unref();
    arm();
  }

 private:
  void arm() noexcept {
    due_ = tickwheel::clock::now() + delay_;
    EXPECT_EQ(timeout_.arm(delay_), 0);
  }
  void on_timeout() noexcept {
    ++to_.fired;
    to_.early += tickwheel::clock::now() < due_;
    arm();
  }

  nanoseconds delay_;
  findings& to_;
  tickwheel::clock::time_point due_;
  tickwheel::member_timer<&checked::on_timeout> timeout_;
};

/// Where the child is when it is stopped.
enum class where { in_its_poll, in_a_callback };

class block_of_loop : public testing::TestWithParam<where> {
 protected:
  // Runs a loop in a child, stops that, has bytes wait for it, continues it, and takes what it found.
  void SetUp() override {
    const child_process child{[this] {
      const findings mine = run();
      EXPECT_EQ(::write(report_.writing(), &mine, sizeof mine), ssize_t{sizeof mine});
    }};
    char ready = 0;
    ASSERT_EQ(::read(ready_.reading(), &ready, 1), 1);
    std::this_thread::sleep_for(100ms);  // it has beaten by then
    ASSERT_EQ(kill(child.id(), SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child.id(), &status, WUNTRACED), child.id());
    ASSERT_TRUE(WIFSTOPPED(status));
    stopped_at_ = now_ns();
    waiting_.peer_sends();
    std::this_thread::sleep_for(stop);
    continued_at_ = now_ns();
    ASSERT_EQ(kill(child.id(), SIGCONT), 0);
    std::this_thread::sleep_for(30ms);
    prompt_.peer_sends();
    ASSERT_EQ(::read(report_.reading(), &found, sizeof found), ssize_t{sizeof found});
    EXPECT_EQ(child.exit_code(), 0);
  }

  findings run() {
    findings f;
    live_loop loop;
    timer_service timers;
    EXPECT_EQ(timers.open(loop), 0);
    {
      connection waiting{loop, timers, waiting_, f.waiting};
      connection prompt{loop, timers, prompt_, f.prompt};
      connection silent{loop, timers, silent_, f.silent};
      metronome beats{timers, f};
      std::vector<std::unique_ptr<checked>> all;
      for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<checked>(timers, i * 31ms + 5ms, f));
      probe busy{timers, [] { block_for(500ms); }};  // which a stop is in the midst of
      if (GetParam() == where::in_a_callback) {
        EXPECT_EQ(busy.timeout.arm(60ms), 0);
      }
      probe ready{timers, [this] { EXPECT_EQ(::write(ready_.writing(), "x", 1), 1); }};
      EXPECT_EQ(ready.timeout.arm(10ms), 0);
      loop.run();  // until all three were evicted
      EXPECT_TRUE(is_valid(timers));
    }
    const auto& s = timers.stats();
    f.lateness_max = s.lateness.max().count();
    f.stalls = s.stalls;
    f.stalled = s.stalled.count();
    return f;
  }

  moment stopped_at() const { return stopped_at_; }
  moment continued_at() const { return continued_at_; }

  findings found;

 private:
  socket_pair waiting_, prompt_, silent_;
  byte_pipe ready_, report_;
  moment stopped_at_ = 0, continued_at_ = 0;
};

TEST_P(block_of_loop, by_stop_of_process_evicts_only_silent_peer) {
  // who sent during the stop
  EXPECT_EQ(found.waiting.reads, 1) << "it was evicted though its byte waited";
  EXPECT_GE(found.waiting.last_read, continued_at());
  EXPECT_GE(found.waiting.evicted, found.waiting.last_read + limit.count());

  // who sent right after it, as soon as it could be answered again
  EXPECT_EQ(found.prompt.reads, 1) << "it was charged with a stop of ours";
  EXPECT_GE(found.prompt.evicted, found.prompt.last_read + limit.count());

  // who did not send at all: later by no more than the stop
  EXPECT_GE(found.silent.evicted, found.silent.started + limit.count());
  EXPECT_LE(found.silent.evicted,
            found.silent.started + limit.count() + (continued_at() - stopped_at()) + (500ms + noise).count());

  // the interval
  EXPECT_LE(found.gap_began, stopped_at());
  EXPECT_GE(found.gap_ended, continued_at());
  EXPECT_EQ(found.early_beats, 0);
  const auto without_gap = (found.last_beat - found.began) - (found.gap_ended - found.gap_began);
  EXPECT_LE(found.beats, without_gap / period.count() + 2) << "what was missed is not made up for";

  // the timers
  EXPECT_EQ(found.early, 0);
  EXPECT_GT(found.fired, 100);

  // and what shows it
  EXPECT_GE(found.lateness_max, (stop - 500ms).count());
  EXPECT_GE(found.stalls, 1U);
  EXPECT_GE(found.stalled, (stop - 500ms).count());
  EXPECT_LE(found.stalled, (continued_at() - stopped_at()) + (500ms + noise).count());
}

INSTANTIATE_TEST_SUITE_P(stopped, block_of_loop, testing::Values(where::in_its_poll, where::in_a_callback),
                         [](const auto& of) {
                           return std::string{of.param == where::in_its_poll ? "in_its_poll" : "in_a_callback"};
                         });

}  // namespace
