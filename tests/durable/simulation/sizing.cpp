#include "sizing.hpp"

#include "event_queue.hpp"
#include "machine.hpp"
#include "network.hpp"
#include "run_loop.hpp"

#include <tickwheel/durable/durable.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

namespace {

using durable::store_verb;
using namespace std::chrono_literals;

constexpr nanos time_of_machines = 1000 * 3'600 * second;
constexpr nanos commit = ms;
constexpr nanos shortest_work = 5 * ms;
constexpr nanos longest_work = 50 * ms;
constexpr nanos fed_every = 500 * ms;
constexpr nanos fed_ahead = 4 * second;  // more than a window and two polls
constexpr nanos observed_every = 10 * ms;
constexpr nanos steady_for = 30 * second;
constexpr std::array counted{store_verb::renew,  store_verb::load,    store_verb::begin,
                             store_verb::finish, store_verb::recover, store_verb::purge};

struct start_watch {
  virtual void on_started(durable::clock::time_point due) = 0;

 protected:
  ~start_watch() = default;
};

// A machine with a scheduler, whose tasks take some milliseconds.
class worker final : public host {
 public:
  worker(unsigned index, event_queue& queue, network& net, start_watch& watch, durable::scheduler_options options)
      : index_{index},
        queue_{queue},
        net_{net},
        watch_{watch},
        options_{std::move(options)},
        machine_{time_of_machines * 2 + index * second, static_cast<std::int64_t>(index % 7) * 10 - 30} {
    options_.name = "n";
    options_.name.append(std::to_string(index));
    options_.seed = index + 1;
  }
  ~worker() { lose_power(); }

  void start() {
    machine_.catch_up(queue_.now());
    scheduler_ =
        std::make_unique<durable::scheduler>(machine_.timers, net_.make_store(index_, options_.name, *this), options_);
    scheduler_->on_due([this](durable::execution run) noexcept { work(std::move(run)); });
    if (scheduler_->open([](int) noexcept {}) != 0) std::abort();
    is_dirty_ = true;
  }
  void lose_power() {
    if (scheduler_ == nullptr) return;
    net_.lose_power(index_, false);
    scheduler_.reset();
    at_work_.clear();
    is_dirty_ = true;
  }

  bool lives() const noexcept { return scheduler_ != nullptr; }
  const std::string& name() const noexcept { return options_.name; }
  nanos next(nanos t) {
    if (is_dirty_) next_ = lives() ? machine_.next(t) : never;
    is_dirty_ = false;
    return next_;
  }
  void catch_up(nanos t) {
    machine_.catch_up(t);
    is_dirty_ = true;
  }
  void receive(std::function<void()> what) override {
    if (!lives()) return;
    catch_up(queue_.now());
    what();
  }
  nanos local_now() override { return machine_.shown(); }

 private:
  void work(durable::execution run) {
    watch_.on_started(run.due());
    const nanos takes = shortest_work + static_cast<nanos>(run.token() * 7919 % (longest_work - shortest_work));
    at_work_.push_back(std::move(run));
    queue_.after(takes, [this, which = std::prev(at_work_.end())] {
      receive([this, which] {
        which->done();
        at_work_.erase(which);
      });
    });
  }

  const unsigned index_;
  event_queue& queue_;
  network& net_;
  start_watch& watch_;
  durable::scheduler_options options_;
  machine machine_;
  std::unique_ptr<durable::scheduler> scheduler_;
  std::list<durable::execution> at_work_;
  nanos next_ = never;
  bool is_dirty_ = true;
};

// Puts the tasks into the database that are due soon.
class feeder {
 public:
  feeder(event_queue& queue, machine& server, std::shared_ptr<durable::memory_database> database, nanos interval)
      : queue_{queue}, database_{std::move(database)}, store_{durable::memory_store(database_)}, interval_{interval} {
    if (store_->open(server.timers) != 0) std::abort();
    join_.name = "feeder";
    join_.lease = 1s;
    join_.keep_finished = 1s;
    store_->join(join_);
  }
  ~feeder() { store_->close(); }

  /// It wants no partitions, and is no member.
  void leave() {
    if (!database_->bury(join_.session)) std::abort();
  }
  void feed() {
    const nanos until = queue_.now() + fed_ahead;
    for (; next_ <= until; next_ += interval_) {
      if (puts_.empty() || puts_.back()->items.size() == 1000) puts_.push_back(std::make_unique<put>());
      durable::task what;
      what.id = std::to_string(++number_);
      what.due = wall_time(count(durable::memory_database::first_day) + next_);
      puts_.back()->items.push_back({std::move(what), durable::on_conflict::keep});
    }
    for (const auto& p : puts_) store_->put(*p);
    fed_.splice(fed_.end(), puts_);
    fed_.remove_if([](const auto& p) { return p->is_answered; });
    queue_.after(fed_every, [this] { feed(); });
  }

 private:
  struct put final : durable::put_call {
    put()
        : durable::put_call{[](durable::store_call& c) noexcept {
            static_cast<put&>(static_cast<durable::put_call&>(c)).is_answered = true;
          }} {}
    bool is_answered = false;
  };
  event_queue& queue_;
  std::shared_ptr<durable::memory_database> database_;
  std::unique_ptr<durable::store> store_;
  durable::join_call join_{[](durable::store_call&) noexcept {}};
  const nanos interval_;
  nanos next_ = second;
  std::uint64_t number_ = 0;
  std::list<std::unique_ptr<put>> puts_, fed_;
};

struct loss {
  unsigned nodes = 0;
  nanos taken_over = 0;  // until its partitions have living owners
  nanos even = 0;        // until the shares are even
  nanos latest = 0;      // the latest start
  std::size_t late = 0;  // starts that were later than a second
  double busiest = 0;    // requests per second, in the busiest second
};

struct figures {
  nanos lease = 0;
  unsigned partitions = 0;
  nanos even = 0;  // after the start of all nodes at once
  std::array<double, counted.size()> requests{};
  double all_requests = 0;
  double starts = 0;
  unsigned least = 0, median = 0, most = 0;
  nanos late_median = 0, late_p99 = 0, latest = 0;
  std::vector<loss> losses;
};

network_options options_of(const sizing_options& o, nanos lease) {
  network_options n;
  n.places = o.nodes;
  n.patience = lease / 2;
  n.silence = 2 * lease;
  return n;
}

class cluster final : observer, public start_watch {
 public:
  cluster(const sizing_options& o, nanos lease, unsigned partitions)
      : options_{o},
        lease_{lease},
        partitions_{partitions},
        server_{time_of_machines, 0},
        database_{std::make_shared<durable::memory_database>(static_cast<std::uint16_t>(partitions))},
        feeder_{queue_, server_, database_, o.horizon / static_cast<nanos>(o.tasks)},
        net_{queue_, server_, database_, options_of(o, lease), *this} {
    for (std::size_t v = 0; v != durable::store_verbs; ++v)
      database_->answer_after(static_cast<store_verb>(v), std::chrono::nanoseconds{commit});
    net_.calm();
    durable::scheduler_options of_all;
    of_all.lease = std::chrono::nanoseconds{lease};
    of_all.keep_finished = 1s;
    of_all.max_requests = 64;
    for (unsigned n = 0; n != o.nodes; ++n)
      workers_.push_back(std::make_unique<worker>(n, queue_, net_, *this, of_all));
  }
  ~cluster() {
    for (const auto& w : workers_) w->lose_power();
    queue_.clear();
  }

  figures measure() {
    figures f;
    f.lease = lease_;
    f.partitions = partitions_;
    run_for(10 * ms);
    feeder_.leave();
    feeder_.feed();
    for (const auto& w : workers_) w->start();
    f.even = until([this] { return is_even(); });
    run_for(lease_ + 2 * second);
    measure_steady_state(f);
    for (const unsigned n : {1U, 10U, 33U})
      if (n < options_.nodes) f.losses.push_back(lose(n));
    return f;
  }

 private:
  void on_opened(connection&) override {}
  void on_gone(connection&) override {}
  void on_asked(connection&, store_verb, const durable::store_call&) override {}
  void on_arrived(connection&, store_verb v, const durable::store_call&) override {
    ++calls_.at(static_cast<std::size_t>(v));
    ++all_calls_;
  }
  void on_carried(connection&, store_verb, const durable::store_call&) override {}
  void on_answer(connection&, store_verb, const durable::store_call&, nanos) override {}
  void on_started(durable::clock::time_point due) override {
    const nanos now = count(database_->now()) + server_.clock.at(queue_.now()) - server_.shown();
    lateness_.push_back(now - count(due));
  }

  void run_for(nanos t) {
    run_until(queue_, server_, workers_, queue_.now() + t, [](bool) { return true; });
  }
  template <class Condition>
  nanos until(Condition&& holds) {
    const nanos begin = queue_.now();
    const nanos most = 20 * lease_ + 60 * second;
    while (!holds() && queue_.now() - begin < most) run_for(observed_every);
    return queue_.now() - begin;
  }

  // The partitions of each living worker, in order. Empty: one has a dead owner, or none.
  std::vector<unsigned> shares() const {
    std::vector<std::pair<durable::session_number, unsigned>> living;
    for (const auto& w : workers_)
      if (w->lives()) living.emplace_back(database_->session_of(w->name()), 0);
    std::sort(living.begin(), living.end());
    for (durable::partition_number p = 0; p != partitions_; ++p) {
      const std::pair<durable::session_number, unsigned> of{database_->owner_of(p), 0};
      const auto owner = std::lower_bound(living.begin(), living.end(), of,
                                          [](const auto& x, const auto& y) { return x.first < y.first; });
      if (of.first == 0 || owner == living.end() || owner->first != of.first) return {};
      ++owner->second;
    }
    std::vector<unsigned> all;
    for (const auto& [session, owned] : living) all.push_back(owned);
    std::sort(all.begin(), all.end());
    return all;
  }
  bool is_even() const {
    const auto all = shares();
    return !all.empty() && all.back() <= (partitions_ + all.size() - 1) / all.size();
  }

  void measure_steady_state(figures& f) {
    calls_ = {};
    all_calls_ = 0;
    lateness_.clear();
    run_for(steady_for);
    constexpr double seconds = static_cast<double>(steady_for / second);
    for (std::size_t i = 0; i != counted.size(); ++i)
      f.requests.at(i) = static_cast<double>(calls_.at(static_cast<std::size_t>(counted.at(i)))) / seconds;
    f.all_requests = static_cast<double>(all_calls_) / seconds;
    f.starts = static_cast<double>(lateness_.size()) / seconds;
    const auto all = shares();
    if (!all.empty()) {
      f.least = all.front();
      f.median = all[all.size() / 2];
      f.most = all.back();
    }
    std::sort(lateness_.begin(), lateness_.end());
    if (lateness_.empty()) return;
    f.late_median = lateness_[lateness_.size() / 2];
    f.late_p99 = lateness_[lateness_.size() * 99 / 100];
    f.latest = lateness_.back();
  }

  // The first living workers with most partitions lose their power at one moment. They come back afterwards.
  loss lose(unsigned nodes) {
    loss l;
    l.nodes = nodes;
    std::vector<std::pair<unsigned, worker*>> richest;
    for (const durable::store_node& n : database_->nodes())
      for (const auto& w : workers_)
        if (database_->session_of(w->name()) == n.session) richest.emplace_back(n.partitions, w.get());
    std::stable_sort(richest.begin(), richest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    lateness_.clear();
    for (unsigned i = 0; i != nodes; ++i) richest[i].second->lose_power();
    const nanos begin = queue_.now();
    std::optional<nanos> taken_over, even;
    while (queue_.now() - begin < 2 * lease_ + 5 * second || !even) {
      const std::uint64_t before = all_calls_;
      const nanos second_begins = queue_.now();
      while (queue_.now() - second_begins < second) {
        run_for(observed_every);
        if (!taken_over && !shares().empty()) taken_over = queue_.now() - begin;
        if (!even && is_even()) even = queue_.now() - begin;
      }
      l.busiest = std::max(l.busiest, static_cast<double>(all_calls_ - before));
      if (queue_.now() - begin > 20 * lease_ + 60 * second) break;
    }
    l.taken_over = taken_over.value_or(-1);
    l.even = even.value_or(-1);
    l.latest = lateness_.empty() ? 0 : *std::max_element(lateness_.begin(), lateness_.end());
    l.late = static_cast<std::size_t>(
        std::count_if(lateness_.begin(), lateness_.end(), [](nanos late) { return late > second; }));
    for (unsigned i = 0; i != nodes; ++i) richest[i].second->start();
    until([this] { return is_even(); });
    run_for(lease_ + 2 * second);
    return l;
  }

  const sizing_options options_;
  const nanos lease_;
  const unsigned partitions_;
  event_queue queue_;
  machine server_;
  std::shared_ptr<durable::memory_database> database_;
  feeder feeder_;
  network net_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::array<std::uint64_t, durable::store_verbs> calls_{};
  std::uint64_t all_calls_ = 0;
  std::vector<nanos> lateness_;
};

std::string text(const char* format, double value) {
  std::array<char, 64> t{};
  std::snprintf(t.data(), t.size(), format, value);
  return t.data();
}
std::string in_seconds(nanos n) {
  return n < 0 ? "never" : text("%.2f s", static_cast<double>(n) / static_cast<double>(second));
}
std::string in_ms(nanos n) { return text("%.1f ms", static_cast<double>(n) / static_cast<double>(ms)); }
std::string whole(double n) { return text("%.0f", n); }

}  // namespace

std::string size_cluster(const sizing_options& o) {
  std::string steady =
      "| lease | partitions | renew | load | begin | finish | recover | purge | all requests per second | starts per "
      "second | lateness: "
      "median | 99 % | most |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  std::string even =
      "| lease | partitions | partitions of a node: least | median | most | even after the start of all nodes |\n"
      "|---|---|---|---|---|---|\n";
  std::string lost =
      "| lease | partitions | nodes lost | taken over after | even after | latest start | starts later than 1 s | "
      "requests in the busiest second |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const nanos lease : {second, 10 * second}) {
    for (const unsigned partitions : {64U, 1024U}) {
      const figures f = cluster{o, lease, partitions}.measure();
      std::string head{"| "};
      head.append(std::to_string(lease / second)).append(" s | ").append(std::to_string(partitions)).append(" | ");
      steady.append(head);
      for (const double n : f.requests) steady.append(whole(n)).append(" | ");
      steady.append(whole(f.all_requests)).append(" | ").append(whole(f.starts)).append(" | ");
      steady.append(in_ms(f.late_median)).append(" | ").append(in_ms(f.late_p99)).append(" | ");
      steady.append(in_ms(f.latest)).append(" |\n");
      even.append(head).append(std::to_string(f.least)).append(" | ").append(std::to_string(f.median)).append(" | ");
      even.append(std::to_string(f.most)).append(" | ").append(in_seconds(f.even)).append(" |\n");
      for (const loss& l : f.losses) {
        lost.append(head).append(std::to_string(l.nodes)).append(" | ").append(in_seconds(l.taken_over)).append(" | ");
        lost.append(in_seconds(l.even)).append(" | ").append(in_seconds(l.latest)).append(" | ");
        lost.append(std::to_string(l.late)).append(" | ").append(whole(l.busiest)).append(" |\n");
      }
      std::fprintf(stderr, "simulation: sizing: a lease of %lld s with %u partitions is done\n",
                   static_cast<long long>(lease / second), partitions);
    }
  }
  std::string all{"## Requests\n\n"};
  return all.append(steady).append("\n## Shares\n\n").append(even).append("\n## The loss of nodes\n\n").append(lost);
}

}  // namespace simulation
