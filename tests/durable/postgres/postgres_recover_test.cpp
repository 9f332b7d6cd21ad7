// Which tasks of a lost node a recovery reads first.
#include "postgres_fixture.hpp"

#include <string>

using namespace conformance;

namespace {

class postgres_recover : public testing::Test {
 protected:
  // Tasks run. The clock is set back, so that none of the earlier ones is due any more.
  void SetUp() override {
    lost.start(1h, "lost");
    const auto now = lost.now();
    for (int i = 0; i != 20; ++i) run({.id = "early" + std::to_string(i), .due = now});
    on.shift_clock(-1h);
    for (int i = 0; i != 20; ++i) run({.id = "late" + std::to_string(i), .due = now - 2h});
    own.join();
    own.bury(lost.session());
    own.acquire();
  }
  void TearDown() override {
    own.close();
    std::string why;
    EXPECT_TRUE(on.validate(&why)) << why;
  }
  void run(durable::task what) {
    const std::string id = what.id;
    ASSERT_TRUE(lost.begin(id, lost.put(std::move(what)).rev));
  }
  std::string running() { return on.other().run("select count(*) from tasks where state = 1"); }
  void wait_until_none_runs() {
    for (const auto deadline = std::chrono::steady_clock::now() + 20s; running() != "0"; on.turn())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }

  postgres_fixture on;
  node lost{on}, own{on};
};

TEST_F(postgres_recover, answers_once_all_that_was_due_is_recovered) {
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 20, .died = 0}));
  EXPECT_NE(running(), "0");
  wait_until_none_runs();
  EXPECT_EQ(own.recover(), (node::recovery{.recovered = 20, .died = 0})) << "they were recovered meanwhile";
  EXPECT_EQ(own.recover(), node::recovery{});
}

// A statement recovers at most 1,000 tasks.
TEST_F(postgres_recover, goes_on_behind_a_row_that_another_client_holds) {
  on.other().run(
      "insert into tasks(id, part, state, at, due, period, rev, session, payload) select "
      "'many' || i, 0, 1, i, i, 0, i, 999999, '' from generate_series(1, 1500) i");
  on.other().run("begin; select from tasks where id = 'many1' for update");
  EXPECT_EQ(own.recover().recovered, 20U + 1499U);
  on.other().run("rollback; delete from tasks where id like 'many%'");
}

TEST_F(postgres_recover, answers_although_another_client_holds_all_rows) {
  on.other().run("begin; select from tasks for update");
  EXPECT_EQ(own.recover(), node::recovery{});
  on.other().run("rollback");
}

TEST_F(postgres_recover, reads_the_rest_after_the_connection_was_lost) {
  own.recover();
  on.other().run("select pg_terminate_backend(pid::integer) from links");
  asked<durable::recover_call> c;
  c.session = own.session();
  c.max_attempts = 8;
  for (c.status = durable::store_status::unknown; c.status != durable::store_status::ok;) {
    c.answers = 0;
    call_runner{on}.run(own.store(), c);
  }
  wait_until_none_runs();
}

TEST_F(postgres_recover, leaves_the_rest_to_the_next_owner) {
  own.recover();
  own.release(own.owned());
  node next{on};
  next.start(1h, "next");
  next.recover();
  wait_until_none_runs();
  next.close();
}

}  // namespace
