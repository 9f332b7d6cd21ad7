// Costs of an expiring_map beside std::unordered_map, which expires nothing: insert, find, find what is absent, erase.
//
//   expiring_map_bench [--entries N] [--rounds N]
//
// The subjects take turns, each with a new map in each round, and the medians of the rounds are printed. Keys are random numbers of
// 64 bits, and each pass over them has an order of its own, so that nearly every access misses the cache. Both maps are given their
// size before. All subjects must find the same values.
#include <tickwheel/net/expiring_map.hpp>
#include <tickwheel/uv/manual_driver.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using tickwheel::expire_after;

/// The keys, in the order of each workload.
struct workload {
  explicit workload(std::size_t entries) : inserted(entries) {
    std::mt19937_64 random{1};
    for (auto& key : inserted) key = random();
    found = erased = inserted;
    absent = inserted;
    for (auto& key : absent) key = random();
    for (auto* order : {&found, &erased}) std::shuffle(order->begin(), order->end(), random);
  }
  std::vector<std::uint64_t> inserted, found, absent, erased;
};

class unordered_map {
 public:
  explicit unordered_map(std::size_t entries) { map_.reserve(entries); }
  bool insert(std::uint64_t key, std::uint64_t value) { return map_.emplace(key, value).second; }
  std::uint64_t find(std::uint64_t key) {
    const auto found = map_.find(key);
    return found == map_.end() ? 0 : found->second;
  }
  bool erase(std::uint64_t key) { return map_.erase(key) != 0; }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> map_;
};

template <expire_after expiry>
class expiring_map {
 public:
  explicit expiring_map(std::size_t entries) {
    if (timers_.open(time_) != 0 ||
        map_.open({.capacity = entries, .limit = std::chrono::minutes{30}, .expiry = expiry}) != 0)
      std::abort();
  }
  bool insert(std::uint64_t key, std::uint64_t value) { return map_.insert(key, value) == 0; }
  std::uint64_t find(std::uint64_t key) {
    const std::uint64_t* const found = map_.find(key);
    return found == nullptr ? 0 : *found;
  }
  bool erase(std::uint64_t key) { return map_.erase(key); }
  /// The time of each batch of lookups differs, as in a loop.
  void next_iteration() { time_.advance(std::chrono::milliseconds{1}); }

 private:
  tickwheel::manual_driver time_;
  tickwheel::timer_service timers_;
  tickwheel::expiring_map<std::uint64_t, std::uint64_t> map_{timers_};
};

constexpr std::array<const char*, 4> operations{"insert", "find", "find absent", "erase"};

struct figures {
  std::array<std::vector<double>, operations.size()> ns;
  std::uint64_t checksum = 0;
};

/// The processor time of this thread: what other programs take in between does not count.
std::chrono::nanoseconds processor_time() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

template <class Call>
double ns_of_each(const std::vector<std::uint64_t>& keys, Call&& call) {
  const auto begin = processor_time();
  for (std::size_t i = 0; i != keys.size(); ++i) call(keys[i], i);
  const std::chrono::duration<double, std::nano> took = processor_time() - begin;
  return took.count() / static_cast<double>(keys.size());
}

template <class Map>
void run(const workload& work, figures& into) {
  Map map{work.inserted.size()};
  std::uint64_t sum = 0;
  // Few iterations of the loop, because their own cost is not that of the map.
  const auto turn = [&](std::size_t i) {
    if constexpr (requires { map.next_iteration(); })
      if (i % 10000 == 0) map.next_iteration();
  };
  into.ns[0].push_back(ns_of_each(work.inserted, [&](std::uint64_t key, std::size_t i) {
    turn(i);
    sum += map.insert(key, key ^ 1) ? 1 : 0;
  }));
  into.ns[1].push_back(ns_of_each(work.found, [&](std::uint64_t key, std::size_t i) {
    turn(i);
    sum = sum * 3 + map.find(key);
  }));
  into.ns[2].push_back(ns_of_each(work.absent, [&](std::uint64_t key, std::size_t i) {
    turn(i);
    sum = sum * 3 + map.find(key);
  }));
  into.ns[3].push_back(ns_of_each(work.erased, [&](std::uint64_t key, std::size_t i) {
    turn(i);
    sum += map.erase(key) ? 1 : 0;
  }));
  into.checksum = sum;
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t entries = 1'000'000;
  int rounds = 11;
  CLI::App app{"Costs of an expiring_map beside std::unordered_map."};
  app.add_option("--entries", entries, "entries of each map")->check(CLI::Range(1, 100'000'000));
  app.add_option("--rounds", rounds, "rounds, of which the median is taken")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);

  const workload work{entries};
  figures standard, write, read;
  for (int i = 0; i < rounds; ++i) {
    run<unordered_map>(work, standard);
    run<expiring_map<expire_after::write>>(work, write);
    run<expiring_map<expire_after::read>>(work, read);
  }
  if (standard.checksum != write.checksum || standard.checksum != read.checksum) {
    std::fputs("expiring_map_bench: the subjects found different values\n", stderr);
    return 1;
  }
  std::printf("%zu entries, medians of %d rounds, ns of processor time per call\n\n", entries, rounds);
  std::printf(
      "| operation | unordered_map | expire_after::write | ratio | expire_after::read | ratio "
      "|\n|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i != operations.size(); ++i) {
    const double base = median(standard.ns[i]), w = median(write.ns[i]), r = median(read.ns[i]);
    std::printf("| %s | %.1f | %.1f | %.2f | %.1f | %.2f |\n", operations[i], base, w, w / base, r, r / base);
  }
}
