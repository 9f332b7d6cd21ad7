// Sets a run up, and reports a mismatch.
#include "world.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace durable_model {

world::world(choices& decide, const make_backend& make, bool keeps_trace) : decide_{decide}, keeps_trace_{keeps_trace} {
  if (timers_.open(time_) != 0) std::abort();
  database_ = make(decide_.pick<std::uint16_t>({1, 1, 2, 4}));
  database_->use(time_);
  faults_ = database_->faults();
  if (faults_ == nullptr) longest_delay_ = ms;  // the store's threads answer a little later
  is_brief_ = decide_.is_brief();
  polls_seldom_ = faults_ == nullptr || is_brief_;
  is_crowd_ = decide_.one_in(100) && !answers_wait && !is_brief_;
  if (is_crowd_) ids_ = 2200;
  const std::size_t nodes = faults_ == nullptr ? 1 : 1 + decide_.below(3);
  may_disturb_ = decide_.below(4) != 0;
  may_shift_ = decide_.below(3) == 0;

  durable::scheduler_options& o = options_;
  const nanos poll = is_brief_       ? 250 * ms
                     : polls_seldom_ ? decide_.pick<nanos>({50 * ms, 250 * ms})
                                     : decide_.pick<nanos>({5 * ms, 20 * ms, 50 * ms, 250 * ms});
  o.poll = duration(poll);
  o.window = duration(poll * (is_brief_ ? decide_.pick<nanos>({2, 3}) : decide_.pick<nanos>({2, 3, 8})));
  o.lease = duration(is_brief_ ? poll * decide_.pick<nanos>({4, 8})
                               : std::max(100 * ms, poll * decide_.pick<nanos>({4, 20, polls_seldom_ ? 20 : 100})));
  o.request_timeout = duration(decide_.pick<nanos>({ms, 10 * ms, 100 * ms, second, is_brief_ ? second : 5 * second}));
  o.keep_finished = duration(decide_.pick<nanos>({0, ms, 100 * ms, second, 300 * second}));
  o.max_running = decide_.pick<std::size_t>({1, 2, 3, 1024});
  o.max_loaded = decide_.pick<std::size_t>({1, 2, 4, 100});
  o.max_requests = decide_.pick<std::size_t>({1, 2, 4, answers_wait ? 3 : 64});
  o.max_request_bytes = decide_.pick<std::size_t>({8, 40, 64 << 20});
  o.max_payload = 64;
  o.max_attempts = decide_.pick<unsigned>({1, 2, 3, 5});
  o.retry = {.base = duration(decide_.pick<nanos>({ms, 20 * ms})),
             .cap = duration(decide_.pick<nanos>({20 * ms, second}))};
  if (is_crowd_) {
    o.max_running = decide_.pick<std::size_t>({3, 1024, 4096});
    o.max_loaded = decide_.pick<std::size_t>({100, 1024, 100'000});
    o.max_requests = 65'536;
    o.max_request_bytes = 64 << 20;
    o.max_payload = 65'536;
  }
  facts_.keep_finished = o.keep_finished.count();
  facts_.max_attempts = o.max_attempts;
  facts_.is_behind = answers_wait;
  for (std::size_t i = 0; i != ids_; ++i) models_.emplace_back(facts_);
  tokens_.resize(ids_);
  last_token_.resize(ids_);
  is_unsure_.resize(ids_);
  refresh();

  for (std::size_t i = 0; i != nodes; ++i) {
    node n;
    n.name = "n" + std::to_string(i);
    n.options = options_;
    n.options.name = n.name;
    n.options.seed = 1 + decide_.up_to(999);
    n.starts = i == 0 || decide_.below(4) != 0;
    nodes_.push_back(std::move(n));
  }
  note(
      "world: %zu nodes, %zu ids, poll %lld, lease %lld, timeout %lld, keep %lld, running %zu, loaded %zu, attempts %u",
      nodes, ids_, static_cast<long long>(poll), static_cast<long long>(o.lease.count()),
      static_cast<long long>(o.request_timeout.count()), static_cast<long long>(o.keep_finished.count()), o.max_running,
      o.max_loaded, o.max_attempts);
  if (faults_ != nullptr) {
    faults_->on_call([this](store_verb v, const durable::store_call& c) { look_at(v, c); });
    faults_->refuse([](const durable::task& t) { return t.payload.starts_with('R'); });
    clock_reader_ = database_->make_store();
    if (clock_reader_->open(timers_) != 0) std::abort();
  }
  open(nodes_.front());
  const nanos offset = database_->now() - facts_.now;
  facts_.clock.set(facts_.now, offset);
  least_offset_ = greatest_offset_ = offset;
}

world::~world() {
  is_ending_ = true;
  for (node& n : nodes_) n.scheduler.reset();
  held_.clear();
  if (clock_reader_ != nullptr) clock_reader_->close();
  timers_.close();
}

void world::note(const char* format, ...) {
  char line[256];
  int used = std::snprintf(line, sizeof line, "%lld ", static_cast<long long>(facts_.now));
  va_list more;
  va_start(more, format);
  std::vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used), format, more);
  va_end(more);
  if (keeps_trace_) trace_.append(line).append("\n");
  events_.emplace_back(line);
  if (events_.size() > most_events) events_.pop_front();
}

void world::fail(const char* format, ...) {
  if (mismatch_) return;
  char line[400];
  va_list more;
  va_start(more, format);
  std::vsnprintf(line, sizeof line, format, more);
  va_end(more);
  note("MISMATCH %s", line);
  std::string all = std::string{line} + " after " + std::to_string(operations_) + " operations; the last events:\n";
  for (const std::string& event : events_) all += event + "\n";
  mismatch_ = std::move(all);
}

bool world::fits(bool is_possible, int id, const char* what) {
  if (is_possible || mismatch_) return is_possible;
  const std::string name = name_of_id(id);
  fail("%s %s: no possible row fits", name.c_str(), what);
  *mismatch_ += "rows that were possible:\n" + models_[static_cast<std::size_t>(id)].describe();
  for (const node& n : nodes_) {
    if (n.scheduler == nullptr) continue;
    const durable::scheduler_stats s = n.scheduler->stats();
    char line[200];
    std::snprintf(line, sizeof line,
                  "%s: requests %zu running %zu loaded %zu partitions %zu overdue %lld session %llu\n", n.name.c_str(),
                  s.requests, s.running, s.loaded, s.partitions, static_cast<long long>(s.oldest_overdue.count()),
                  static_cast<unsigned long long>(faults_ != nullptr ? faults_->session_of(n.name) : 0));
    *mismatch_ += line;
  }
  if (faults_ != nullptr) {
    if (const auto row = faults_->row(name)) {
      char line[200];
      std::snprintf(line, sizeof line,
                    "the row: %s attempts %u lost %u stop %d rev %llu ended %llu session %llu next %lld\n",
                    to_string(row->info.state), row->info.attempts, row->info.lost, row->info.cancelling,
                    static_cast<unsigned long long>(row->rev), static_cast<unsigned long long>(row->ended),
                    static_cast<unsigned long long>(row->session), static_cast<long long>(count(row->info.next)));
      *mismatch_ += line;
      std::snprintf(line, sizeof line, "the store's clock: %lld; the owner of its partition: %llu\n",
                    static_cast<long long>(database_->now()),
                    static_cast<unsigned long long>(faults_->owner_of(row->partition)));
      *mismatch_ += line;
    }
  }
  return false;
}

std::string world::name_of_id(int id) const { return "t" + std::to_string(id); }

}  // namespace durable_model
