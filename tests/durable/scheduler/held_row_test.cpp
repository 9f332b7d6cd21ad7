// The store carries out a batch without some elements, because another client holds their rows.
#include "../model/counting_store.hpp"
#include "../support/manual_node.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace tickwheel_test;
using durable::cancel_result;
using durable::execution;
using durable::finish_result;
using durable::on_conflict;
using durable::revive_result;
using durable::schedule_result;
using durable::task_state;

namespace {

/// A store of a database in which another client holds some rows.
class holding_store final : public durable_model::counting_store {
 public:
  explicit holding_store(manual_world& in) : counting_store{durable::memory_store(in.database)} {
    in.database->refuse([](const durable::task& t) { return t.id.starts_with(nobody); });
  }

  void put(durable::put_call& c) noexcept override {
    leave(c, c.items.size(), [&c](std::size_t i) -> std::string& { return c.items[i].what.id; });
    counting_store::put(c);
  }
  void cancel(durable::cancel_call& c) noexcept override {
    leave(c, c.ids.size(), [&c](std::size_t i) -> std::string& { return c.ids[i]; });
    counting_store::cancel(c);
  }
  void revive(durable::revive_call& c) noexcept override {
    leave(c, c.ids.size(), [&c](std::size_t i) -> std::string& { return c.ids[i]; });
    counting_store::revive(c);
  }
  void finish(durable::finish_call& c) noexcept override {
    leave(c, c.items.size(), [&c](std::size_t i) -> std::string& { return c.items[i].id; });
    counting_store::finish(c);
  }

  std::set<std::string> held;
  std::size_t times_left = 0;

 private:
  static constexpr const char* nobody = "nobody's ";

  struct call_on_its_way {
    durable::store_call::answer answer;
    std::vector<std::pair<std::string*, std::string>> ids;  // of the elements that are left
    std::vector<bool> held;
  };
  inline static std::map<durable::store_call*, call_on_its_way> on_their_way;

  /// Gives the elements that are held other ids until the call is answered. There are no such rows.
  template <class IdOf>
  void leave(durable::write_call& c, std::size_t elements, IdOf id_of) {
    EXPECT_TRUE(c.leaves_held);
    EXPECT_TRUE(c.held.empty());
    call_on_its_way& way = on_their_way[&c];
    for (std::size_t i = 0; i != elements; ++i) {
      std::string& id = id_of(i);
      if (!held.contains(id)) continue;
      ++times_left;
      way.held.resize(elements);
      way.held[i] = true;
      way.ids.emplace_back(&id, std::exchange(id, nobody + std::to_string(i)));
    }
    way.answer = std::exchange(c.on_answer, &answered);
  }
  static void answered(durable::store_call& c) noexcept {
    auto known = on_their_way.extract(&c);
    call_on_its_way& way = known.mapped();
    for (auto& [place, id] : way.ids) *place = std::move(id);
    static_cast<durable::write_call&>(c).held = std::move(way.held);
    c.on_answer = way.answer;
    c.on_answer(c);
  }
};

struct held_row : testing::Test {
  held_row() { EXPECT_EQ(node.open(), 0); }

  void put(const durable::task& what, on_conflict conflict = on_conflict::keep) {
    EXPECT_EQ(node.scheduler.schedule(
                  what, [this, id = what.id](schedule_result r) noexcept { puts[id] = r; }, conflict),
              0);
  }
  void cancel(const std::string& id) {
    EXPECT_EQ(node.scheduler.cancel(id, [this, id](cancel_result r) noexcept { cancels[id] = r; }), 0);
  }
  void revive(const std::string& id) {
    EXPECT_EQ(node.scheduler.revive(id, [this, id](revive_result r) noexcept { revives[id] = r; }), 0);
  }
  durable::task in_an_hour(const std::string& id) const {
    return {id, world.database->now() + 1h, "payload of " + id, {}};
  }

  std::map<std::string, schedule_result> puts;
  std::map<std::string, cancel_result> cancels;
  std::map<std::string, revive_result> revives;
  manual_world world;
  holding_store* store = new holding_store{world};
  manual_node node{world, std::unique_ptr<durable::store>{store}};  // the last one: its close answers what is open
};

TEST_F(held_row, does_not_delay_the_cancels_of_others) {
  node.schedule("held", 1h);
  node.schedule("free", 1h);
  store->held = {"held"};
  cancel("held");
  cancel("free");
  node.advance(10ms);
  EXPECT_EQ(cancels, (std::map<std::string, cancel_result>{{"free", cancel_result::cancelled}}));
  node.advance(2s);
  EXPECT_FALSE(cancels.contains("held"));
  store->held.clear();
  node.advance(505ms);
  EXPECT_EQ(cancels["held"], cancel_result::cancelled);
  EXPECT_EQ(node.state("held"), task_state::cancelled);
  EXPECT_EQ(node.scheduler.stats().unavailable, 0U);
}

TEST_F(held_row, does_not_delay_the_puts_of_others) {
  node.schedule("held", 1h);
  store->held = {"held"};
  durable::task later = in_an_hour("held");
  later.due += 1h;
  later.payload = "another payload";
  put(later, on_conflict::replace);
  put(in_an_hour("free"));
  node.advance(10ms);
  EXPECT_EQ(puts, (std::map<std::string, schedule_result>{{"free", schedule_result::scheduled}}));
  store->held.clear();
  node.advance(1s);
  EXPECT_EQ(puts["held"], schedule_result::replaced);
  const durable::task kept = world.database->info("held").value().what;
  EXPECT_EQ(kept.due, later.due);
  EXPECT_EQ(kept.payload, later.payload);
}

TEST_F(held_row, does_not_delay_the_revivals_of_others) {
  node.on_start = [](execution run) { run.bury("for a test"); };
  node.schedule("held", 0s);
  node.schedule("free", 0s);
  node.advance(1s);
  node.on_start = [](execution run) { run.done(); };
  store->held = {"held"};
  revive("held");
  revive("free");
  node.advance(10ms);
  EXPECT_EQ(revives, (std::map<std::string, revive_result>{{"free", revive_result::revived}}));
  store->held.clear();
  node.advance(1s);
  EXPECT_EQ(revives["held"], revive_result::revived);
  EXPECT_EQ(node.state("held"), task_state::finished);
}

TEST_F(held_row, does_not_delay_the_ends_of_others) {
  std::map<std::string, finish_result> ends;
  node.on_start = [&](execution run) {
    store->held = {"held"};
    run.done([&ends, id = std::string{run.id()}](finish_result r) noexcept { ends[id] = r; });
  };
  node.schedule("held", 0s);
  node.advance(1s);
  ASSERT_EQ(node.started, std::vector<std::string>{"held"});
  node.schedule("free", 0s);
  node.advance(10ms);
  EXPECT_EQ(ends, (std::map<std::string, finish_result>{{"free", finish_result::finished}}));
  node.advance(30s);
  EXPECT_EQ(node.scheduler.stats().running, 1U) << "an end has no deadline";
  store->held.clear();
  node.advance(505ms);
  EXPECT_EQ(ends["held"], finish_result::finished);
  EXPECT_EQ(node.started.size(), 2U);
}

TEST_F(held_row, keeps_the_order_of_the_requests_of_its_id) {
  store->held = {"t"};
  put(in_an_hour("t"));
  cancel("t");
  put(in_an_hour("t"), on_conflict::replace);
  node.advance(100ms);
  EXPECT_TRUE(puts.empty());
  EXPECT_TRUE(cancels.empty());
  store->held.clear();
  node.advance(1s);
  EXPECT_EQ(cancels["t"], cancel_result::cancelled);
  EXPECT_EQ(puts["t"], schedule_result::replaced);
  EXPECT_EQ(node.state("t"), task_state::pending);
}

TEST_F(held_row, is_asked_for_with_pauses_that_grow) {
  store->held = {"t"};
  put(in_an_hour("t"));
  node.advance(100ms);
  EXPECT_GE(store->times_left, 4U);
  node.advance(3s);
  const std::size_t before = store->times_left;
  node.advance(1500ms);
  EXPECT_GE(store->times_left, before + 3);
  EXPECT_LE(store->times_left, before + 12);
}

// It may delay its batch again.
TEST_F(held_row, is_sent_again_without_others) {
  store->held = {"held"};
  int mixed = 0, alone = 0;
  world.database->on_call([&](durable::store_verb v, const durable::store_call& call) {
    if (v != durable::store_verb::put) return;
    const auto& items = static_cast<const durable::put_call&>(call).items;
    const bool has_held =
        std::any_of(items.begin(), items.end(), [](const auto& i) { return i.what.id.starts_with("nobody's"); });
    mixed += has_held && items.size() > 1;
    alone += has_held && items.size() == 1;
  });
  put(in_an_hour("held"));
  for (int i = 0; i != 2000; ++i) {
    put(in_an_hour(std::to_string(i)));
    node.advance(1ms);
  }
  EXPECT_EQ(mixed, 1) << "the first time";
  EXPECT_GE(alone, 4);
  EXPECT_EQ(puts.size(), 2000U);
}

// an hour later
TEST_F(held_row, is_tried_again_soon_though_another_one_was_held_until_its_deadline) {
  store->held = {"a"};
  put(in_an_hour("a"));
  node.advance(10s);
  EXPECT_EQ(puts["a"], schedule_result::unavailable);
  store->held = {"b"};
  const std::size_t before = store->times_left;
  put(in_an_hour("b"));
  node.advance(100ms);
  EXPECT_GE(store->times_left, before + 4);
}

// the request is answered at its deadline, between two tries
TEST_F(held_row, makes_its_request_unavailable_at_the_deadline) {
  store->held = {"t"};
  put(in_an_hour("t"));
  cancel("t");
  node.advance(5s - 10ms);
  EXPECT_TRUE(puts.empty());
  node.advance(20ms);
  EXPECT_EQ(puts["t"], schedule_result::unavailable);
  EXPECT_EQ(cancels["t"], cancel_result::unavailable);
  EXPECT_EQ(node.scheduler.stats().unavailable, 2U);
  EXPECT_EQ(node.scheduler.stats().requests, 0U);
  const std::size_t before = store->times_left;
  store->held.clear();
  node.advance(10s);
  EXPECT_EQ(store->times_left, before);
  EXPECT_FALSE(world.database->row("t")) << "it is not sent again";
  EXPECT_EQ(node.schedule("t", 1h), schedule_result::scheduled);
}

// the deadline comes while the request is with the store, which then leaves it
TEST_F(held_row, may_be_left_after_the_deadline) {
  store->held = {"t"};
  world.database->answer_after(durable::store_verb::put, 6s);
  put(in_an_hour("t"));
  node.advance(5500ms);
  EXPECT_EQ(puts["t"], schedule_result::unknown);
  world.database->answer_after(durable::store_verb::put, 0s);
  node.advance(1s);
  EXPECT_EQ(store->times_left, 1U);
  store->held.clear();
  EXPECT_EQ(node.schedule("t", 1h), schedule_result::scheduled);
  EXPECT_EQ(node.scheduler.stats().requests, 0U);
}

TEST_F(held_row, that_is_held_until_close_is_answered_then) {
  store->held = {"t"};
  put(in_an_hour("t"));
  cancel("t");
  node.advance(1s);
  node.scheduler.close();
  EXPECT_EQ(puts["t"], schedule_result::unavailable);
  EXPECT_EQ(cancels["t"], cancel_result::unavailable);
  store->held.clear();
  node.ready.reset();
  EXPECT_EQ(node.open(), 0);
  node.advance(1s);
  EXPECT_FALSE(world.database->row("t"));
}

}  // namespace
