// The processes of a run with several nodes. All of them run the same workloads, and wait for each other in between.
#pragma once

#include "bench_node.hpp"
#include "failure.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace tickwheel::bench {

inline constexpr std::size_t most_nodes = 8;

/// Memory that the processes share.
struct team_memory {
  static constexpr std::size_t most_samples = 1 << 20;

  std::atomic<std::uint64_t> arrived{0};  // at barriers, by all
  std::atomic<std::uint64_t> counted{0};
  std::atomic<std::int64_t> moment{0};
  std::array<std::atomic<std::int64_t>, most_nodes> begun{};
  std::array<std::atomic<std::int64_t>, most_nodes> ended{};
  std::array<std::atomic<std::uint64_t>, most_nodes> sampled{};
  std::array<std::array<std::int64_t, most_samples>, most_nodes> samples;  // its pages exist when they are written
};

/// The constructor makes the processes, and each goes on with a rank of its own. The destructor ends all but the first.
class team {
 public:
  explicit team(std::size_t size) : size_{size} {
    void* const memory =
        ::mmap(nullptr, sizeof(team_memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("there is no memory for several nodes");
    shared_ = new (memory) team_memory;
    const pid_t parent = ::getpid();
    for (std::size_t i = 1; i != size; ++i) {
      const pid_t child = ::fork();
      if (child < 0) fail("cannot fork");
      if (child == 0) {
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) std::_Exit(1);
        rank_ = i;
        children_.clear();
        return;
      }
      children_.push_back(child);
    }
  }
  ~team() {
    if (rank_ != 0) std::_Exit(0);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
    ::munmap(shared_, sizeof(team_memory));
  }
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  team_memory& shared() const { return *shared_; }

  /// Returns how many of `count` are of this process, and the place of the first.
  std::size_t share_of(std::size_t count) const { return place_of(count, rank_ + 1) - first_of(count); }
  std::size_t first_of(std::size_t count) const { return place_of(count, rank_); }

  /// Waits until all have arrived here.
  void meet(bench_node& node) {
    meetings_ += size_;
    ++shared_->arrived;
    wait_until(node, [this] { return shared_->arrived >= meetings_; });
  }
  /// Runs the loop until another process has made `done` true.
  template <class Done>
  void wait_until(bench_node& node, const Done& done) const {
    node.wait_until([&] {
      const bool has_ended = a_child_has_ended();  // first: one that ends after its last meeting has made that done
      if (done()) return true;
      if (has_ended) fail("a node has ended early");
      return false;
    });
  }
  /// Runs `part` in all processes at once. Returns the time from the first begin to the last end.
  template <class Part>
  std::chrono::nanoseconds run(bench_node& node, const Part& part) {
    meet(node);
    shared_->begun[rank_] = now();
    part();
    shared_->ended[rank_] = now();
    meet(node);
    const auto all = static_cast<std::ptrdiff_t>(size_);
    return std::chrono::nanoseconds{*std::max_element(shared_->ended.begin(), shared_->ended.begin() + all) -
                                    *std::min_element(shared_->begun.begin(), shared_->begun.begin() + all)};
  }
  /// Returns the samples of all processes.
  std::vector<std::chrono::nanoseconds> gather(bench_node& node, const std::vector<std::chrono::nanoseconds>& own) {
    if (own.size() > team_memory::most_samples) fail("there are too many samples");
    for (std::size_t i = 0; i != own.size(); ++i) shared_->samples[rank_][i] = own[i].count();
    shared_->sampled[rank_] = own.size();
    meet(node);
    std::vector<std::chrono::nanoseconds> all;
    for (std::size_t r = 0; r != size_; ++r)
      for (std::size_t i = 0; i != shared_->sampled[r]; ++i) all.emplace_back(shared_->samples[r][i]);
    meet(node);
    return all;
  }

  /// Nanoseconds of the steady clock, which all processes share.
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

 private:
  std::size_t place_of(std::size_t count, std::size_t rank) const { return count * rank / size_; }
  bool a_child_has_ended() const {
    return std::any_of(children_.begin(), children_.end(), [](pid_t child) {
      siginfo_t ended{};
      return ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             ended.si_pid == child;
    });
  }

  std::size_t size_;
  std::size_t rank_ = 0;
  std::uint64_t meetings_ = 0;
  std::vector<pid_t> children_;
  team_memory* shared_ = nullptr;
};

}  // namespace tickwheel::bench
