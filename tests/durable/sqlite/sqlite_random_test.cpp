// Random requests of all sizes beside starts, compared with a model. The store is closed amid them.
//
// Requests and starts have ids of their own, because there is no order between the two.
#include "../../../src/durable/batch_limits.hpp"
#include "sqlite_fixture.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace conformance;
using durable::cancel_result;
using durable::schedule_result;
using durable::store_status;
using durable::task_state;

namespace {

constexpr std::size_t batch = durable::detail::limits.elements;
constexpr std::array<std::size_t, 8> sizes{0, 1, 2, batch / 2, batch - 1, batch, batch + 1, 2 * batch};

struct known {
  task_state state{};
  std::string payload;
};
using model = std::map<std::string, known>;

schedule_result put(model& m, const durable::put_call::item& item) {
  const auto [row, is_new] = m.try_emplace(item.what.id, known{task_state::pending, item.what.payload});
  if (is_new) return schedule_result::scheduled;
  if (item.conflict == durable::on_conflict::keep)
    return row->second.state == task_state::pending ? schedule_result::exists : schedule_result::ended;
  row->second = {task_state::pending, item.what.payload};
  return schedule_result::replaced;
}

cancel_result cancel(model& m, const std::string& id) {
  const auto row = m.find(id);
  if (row == m.end()) return cancel_result::not_found;
  row->second = {task_state::cancelled, {}};
  return cancel_result::cancelled;
}

void expect_equal(const model& m, const std::string& id, const std::optional<durable::task_info>& seen) {
  const auto row = m.find(id);
  ASSERT_EQ(seen.has_value(), row != m.end()) << id;
  if (!seen) return;
  EXPECT_EQ(seen->state, row->second.state) << id;
  EXPECT_EQ(seen->what.payload, row->second.payload) << id;
}

/// A request that was asked. The model learns of it when all before it are answered.
struct request {
  virtual ~request() = default;
  virtual bool is_answered() const = 0;
  virtual void compare(model&) = 0;
};

// Elements that have taken effect. The answer of a call that had its effect may not arrive before the close.
std::size_t effective(const durable::store_call& c, std::size_t count) {
  if (c.status == store_status::unavailable) return c.carried_out;
  return count;
}

struct put_request final : request {
  asked<durable::put_call> call;
  bool is_answered() const override { return call.is_answered(); }
  void compare(model& m) override {
    EXPECT_EQ(call.answers, 1);
    const std::size_t count = effective(call, call.items.size());
    for (std::size_t i = 0; i != count; ++i) EXPECT_EQ(call.results.at(i).result, put(m, call.items[i])) << i;
  }
};

struct cancel_request final : request {
  asked<durable::cancel_call> call;
  bool is_answered() const override { return call.is_answered(); }
  void compare(model& m) override {
    EXPECT_EQ(call.answers, 1);
    const std::size_t count = effective(call, call.ids.size());
    for (std::size_t i = 0; i != count; ++i) EXPECT_EQ(call.results.at(i), cancel(m, call.ids[i])) << i;
  }
};

struct get_request final : request {
  asked<durable::get_call> call;
  bool is_answered() const override { return call.is_answered(); }
  void compare(model& m) override {
    EXPECT_EQ(call.answers, 1);
    if (call.status != store_status::ok) return;
    for (std::size_t i = 0; i != call.ids.size(); ++i) expect_equal(m, call.ids[i], call.results.at(i));
  }
};

struct list_request final : request {
  asked<durable::list_call> call;
  bool is_answered() const override { return call.is_answered(); }
  void compare(model& m) override {
    EXPECT_EQ(call.answers, 1);
    if (call.status != store_status::ok) return;
    auto row = m.begin();
    for (const durable::task_info& seen : call.results) {
      while (row != m.end() && row->second.state != task_state::pending) ++row;
      ASSERT_NE(row, m.end());
      ASSERT_EQ(seen.what.id, row->first);
      EXPECT_EQ(seen.what.payload, (row++)->second.payload);
    }
    while (row != m.end() && row->second.state != task_state::pending) ++row;
    EXPECT_EQ(row, m.end());
  }
};

/// A start of one task, and its end.
struct execution {
  asked<durable::begin_call> begin;
  asked<durable::finish_call> finish;
  bool is_finishing = false;
};

class random_requests {
 public:
  explicit random_requests(std::uint64_t seed) : random_{seed} {
    on_.options.checkpoint_pages = 1 + below(20);
    own_ = std::make_unique<node>(on_);
    own_->start();
  }
  ~random_requests() { own_->close(); }
  random_requests(const random_requests&) = delete;
  random_requests& operator=(const random_requests&) = delete;

  void run_and_close() {
    prepare_starts();
    for (int i = 0; i != 24; ++i) {
      ask();
      if (below(3) != 0) start_one();
      if (below(3) == 0) turn();
    }
    for (std::size_t turns = below(20); turns != 0; --turns) turn();
    own_->close();
    turn_answers();
    EXPECT_TRUE(requests_.empty());
    own_->start();
    compare_all();
    executions_.clear();
  }

 private:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>{0, end - 1}(random_); }

  // ids of one call: each once, and some of them were in other calls
  std::vector<std::string> some_ids() {
    const std::size_t count = sizes[below(sizes.size())];
    const std::size_t first = below(batch + 1);
    std::vector<std::string> ids;
    for (std::size_t i = 0; i != count; ++i) ids.push_back("r" + std::to_string(first + i));
    std::shuffle(ids.begin(), ids.end(), random_);
    return ids;
  }

  template <class Request, class Fill>
  void ask(Fill fill) {
    auto made = std::make_unique<Request>();
    fill(made->call);
    call(own_->store(), made->call);
    requests_.push_back(std::move(made));
  }
  void ask() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return ask<put_request>([this](auto& c) {
          const auto conflict = below(2) == 0 ? durable::on_conflict::keep : durable::on_conflict::replace;
          for (auto& id : some_ids()) c.items.push_back({due_now(id, std::to_string(++payloads_)), conflict});
        });
      case 4:
      case 5:
        return ask<cancel_request>([this](auto& c) { c.ids = some_ids(); });
      case 6:
        return ask<get_request>([this](auto& c) { c.ids = some_ids(); });
      default:
        return ask<list_request>([](auto& c) {
          c.after = "q";
          c.limit = 10'000;
        });
    }
  }

  void prepare_starts() {
    asked<durable::put_call> c;
    for (int i = 0; i != 40; ++i) c.items.push_back({due_now("a" + std::to_string(++starts_), "x"), {}});
    own_->run(c);
    for (std::size_t i = 0; i != c.items.size(); ++i) pending_.push_back({c.items[i].what.id, c.results.at(i).rev});
  }
  void start_one() {
    if (pending_.empty()) return;
    auto& made = *executions_.emplace_back(std::make_unique<execution>());
    made.begin.session = own_->session();
    made.begin.items.push_back(pending_.back());
    pending_.pop_back();
    own_->store().begin(made.begin);
  }

  void turn() {
    on_.turn();
    turn_answers();
    for (const auto& e : executions_) {
      if (!e->begin.is_answered() || std::exchange(e->is_finishing, true)) continue;
      ASSERT_EQ(e->begin.starts.size(), 1U);
      EXPECT_GT(e->begin.starts[0].token, last_token_);
      last_token_ = e->begin.starts[0].token;
      e->finish.items.push_back({.id = e->begin.items[0].id, .token = last_token_});
      own_->store().finish(e->finish);
    }
  }
  void turn_answers() {
    for (; !requests_.empty() && requests_.front()->is_answered(); requests_.pop_front())
      requests_.front()->compare(model_);
  }

  void compare_all() {
    const shell reader{on_.file};
    std::string rows;
    for (const auto& [id, row] : model_)
      rows += (rows.empty() ? "" : "\n") + id + " " + std::to_string(static_cast<int>(row.state)) + " " + row.payload;
    EXPECT_EQ(reader.read("select id || ' ' || state || ' ' || coalesce(cast(payload as text), '') from tasks where "
                          "id >= 'r' order by id"),
              rows);
    for (const auto& e : executions_) {
      const auto info = own_->get(e->begin.items[0].id);
      ASSERT_TRUE(info.has_value());
      EXPECT_EQ(e->begin.answers, 1);
      if (e->begin.status != store_status::unknown) {
        EXPECT_EQ(info->attempts, e->begin.status == store_status::ok ? 1U : 0U);
      }
      if (!e->is_finishing) continue;
      EXPECT_EQ(e->finish.answers, 1);
      if (e->finish.status != store_status::unknown) {
        EXPECT_EQ(info->state, e->finish.status == store_status::ok ? task_state::finished : task_state::running);
      }
    }
    std::string why;
    EXPECT_TRUE(on_.validate(&why)) << why;
  }

  std::mt19937_64 random_;
  sqlite_fixture on_;
  std::unique_ptr<node> own_;
  model model_;
  std::deque<std::unique_ptr<request>> requests_;
  std::vector<durable::begin_call::item> pending_;
  std::vector<std::unique_ptr<execution>> executions_;
  std::uint64_t payloads_ = 0;
  int starts_ = 0;
  durable::revision last_token_ = 0;
};

TEST(sqlite_random, requests_beside_starts_are_as_in_the_model) {
  constexpr int seeds = 2;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_requests world{static_cast<std::uint64_t>(seed)};
    for (int round = 0; round != 3; ++round) world.run_and_close();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
