// A postgres_store joins some databases, and says why it refuses others.
#include "joining.hpp"
#include "scripted_server.hpp"

#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/testing.hpp>

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

using namespace conformance;
using durable::store_status;

namespace {

class postgres_open : public testing::Test {
 protected:
  std::string refused(const std::string& conninfo) {
    const auto store = on.make_store(conninfo);
    EXPECT_EQ(store->open(on.timers()), UV_EINVAL);
    return std::string{store->problem()};
  }
  postgres_fixture on;
};

TEST_F(postgres_open, malformed_conninfo_is_refused) {
  EXPECT_EQ(refused("nonsense=1"), "postgres_store: the conninfo is malformed: invalid connection option \"nonsense\"");
  EXPECT_EQ(refused(std::string{"host=\0", 6}), "postgres_store: the conninfo has a NUL");
}

TEST_F(postgres_open, malformed_conninfo_is_not_repeated) {
  for (const auto* const conninfo :
       {"postgresql://u:se%ZZcret@h/db", "postgresql://u:secret@[::1]x/db", "host=h password=a secret",
        "host=h password='secret", "postgresql://u:pass@secret@h/db", "postgresql://u:pass@word:secret/db",
        "postgresql://u:1/word?sslmode=secret@h/db"})
    EXPECT_EQ(refused(conninfo).find("cret"), std::string::npos) << refused(conninfo);
  EXPECT_EQ(refused("postgresql://u:se%ZZcret@h/db"),
            "postgres_store: the conninfo is malformed: invalid percent-encoded token");
  EXPECT_EQ(refused("postgresql://u:pass@word@h/db"),
            "postgres_store: the conninfo is malformed: a host has an @; write that of a password as %40");
}

TEST_F(postgres_open, invalid_value_is_refused) {
  const std::string malformed = "postgres_store: the conninfo is malformed: ";
  for (const auto* const conninfo :
       {"port=abc", "port=0", "port=65536", "port='1 2'", "host=a,b port=1,x", "postgresql://h:abc/x"})
    EXPECT_EQ(refused(conninfo), malformed + "a port is not a number from 1 to 65,535") << conninfo;
  for (const std::string option : {"sslmode", "target_session_attrs", "gssencmode", "channel_binding"}) {
    EXPECT_EQ(refused(on.server.conninfo(option + "=foo")), malformed + "invalid " + option + " value");
    EXPECT_EQ(refused("postgresql:///db?" + option + "=foo"), malformed + "invalid " + option + " value");
  }
  for (const auto* const conninfo :
       {"host=a hostaddr=127.0.0.1,127.0.0.1", "host=a,b,c port=1,2", "hostaddr=::1,::1 port=1,2,3"})
    EXPECT_EQ(refused(conninfo), malformed + "the numbers of hosts, addresses and ports differ") << conninfo;
  for (const std::string address : {"300.1.1.1", "localhost", "127.0.0.1x", "1::2::3", "127.0.0.1%lo"})
    EXPECT_EQ(refused("hostaddr=" + address), malformed + "the hostaddr " + address + " is no address");
  for (const std::string option :
       {"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"})
    for (const auto* const value : {"abc", "1x", "99999999999", "1.5"})
      EXPECT_EQ(refused("host=127.0.0.1 " + option + "=" + value), malformed + option + " is not a whole number");
  EXPECT_EQ(refused("service=nothing"), malformed + "definition of service \"nothing\" not found");
}

TEST_F(postgres_open, invalid_value_of_service_is_refused) {
  const std::string services = on.server.folder() + "/services";
  std::ofstream{services} << "[port]\nhost=127.0.0.1\nport=abc\n[alive]\nkeepalives=abc\n[address]\nhostaddr=1.2.3.x\n"
                             "[numbers]\nhost=a,b\nport=1,2,3\n[tls]\nsslmode=foo\n";
  ASSERT_EQ(::setenv("PGSERVICEFILE", services.c_str(), 1), 0);
  const std::string malformed = "postgres_store: the conninfo is malformed: ";
  EXPECT_EQ(refused("service=port"), malformed + "a port is not a number from 1 to 65,535");
  EXPECT_EQ(refused("service=alive"), malformed + "keepalives is not a whole number");
  EXPECT_EQ(refused("replication=database"), malformed + "a node needs an ordinary connection: leave replication out");
  EXPECT_EQ(refused("service=address"), malformed + "the hostaddr 1.2.3.x is no address");
  EXPECT_EQ(refused("service=numbers"), malformed + "the numbers of hosts, addresses and ports differ");
  EXPECT_EQ(refused("service=tls"), malformed + "invalid sslmode value");
  const auto store = on.make_store("service=port port=1");  // a word of the conninfo counts more
  EXPECT_EQ(store->open(on.timers()), 0) << store->problem();
  store->close();
  ::unsetenv("PGSERVICEFILE");
}

TEST_F(postgres_open, invalid_value_of_environment_is_refused) {
  const std::string malformed = "postgres_store: the conninfo is malformed: ";
  const auto refused_with = [&](const char* variable, const char* value) {
    EXPECT_EQ(::setenv(variable, value, 1), 0);
    const std::string problem = refused("dbname=shop");
    ::unsetenv(variable);
    return problem;
  };
  EXPECT_EQ(refused_with("PGPORT", "abc"), malformed + "a port is not a number from 1 to 65,535");
  EXPECT_EQ(refused_with("PGHOSTADDR", "xyz"), malformed + "the hostaddr xyz is no address");
  EXPECT_EQ(refused_with("PGSSLMODE", "foo"), malformed + "invalid sslmode value");
}

// None of them is asked within `open`.
TEST_F(postgres_open, server_that_cannot_be_reached_is_no_invalid_value) {
  const std::string services = on.server.folder() + "/services";
  std::ofstream{services} << "[two]\nhost=a,b\nhostaddr=127.0.0.1,127.0.0.2\nport=1,2\n";
  ASSERT_EQ(::setenv("PGSERVICEFILE", services.c_str(), 1), 0);
  for (const std::string& conninfo :
       {std::string{}, "host=" + on.server.folder() + "/nowhere", std::string{"host=127.0.0.1 port=1"},
        std::string{"host=no.such.host.invalid"},
        std::string{"hostaddr=10.255.255.1 sslmode=verify-full sslrootcert=/nothing"},
        std::string{"host=/a,/b,/c port=' 1 ,,65535'"}, std::string{"hostaddr=127.1,::1,fe80::1%nothing0 port=1"},
        std::string{"host=127.0.0.1 port=1 keepalives=' 1 ' keepalives_idle=-1"},
        std::string{"postgresql://a,b:5432/shop?target_session_attrs=any"}, std::string{"service=two"},
        std::string{"service=two port=1,2"}}) {
    const auto store = on.make_store(conninfo);
    EXPECT_EQ(store->open(on.timers()), 0) << conninfo << ": " << store->problem();
    store->close();
  }
  ::unsetenv("PGSERVICEFILE");
  // The environment gives what is absent. What is empty is not.
  ASSERT_EQ(::setenv("PGHOST", "db1,db2", 1), 0);
  EXPECT_EQ(refused("hostaddr=127.0.0.1"),
            "postgres_store: the conninfo is malformed: the numbers of hosts, addresses and ports differ");
  const auto store = on.make_store("hostaddr=127.0.0.1 port=1 host=''");
  EXPECT_EQ(store->open(on.timers()), 0) << store->problem();
  store->close();
  ::unsetenv("PGHOST");
}

TEST_F(postgres_open, problem_names_the_invalid_option) {
  using durable::postgres_options;
  EXPECT_EQ(postgres_options{}.problem(), nullptr);
  EXPECT_EQ((postgres_options{.schema = std::string(63, 's'), .partitions = 1024}.problem()), nullptr);
  const auto problem_of = [](const postgres_options& o) { return std::string{o.problem()}; };
  EXPECT_EQ(problem_of({.schema = ""}), "postgres_options::schema does not have 1 to 63 bytes");
  EXPECT_EQ(problem_of({.schema = std::string(64, 's')}), "postgres_options::schema does not have 1 to 63 bytes");
  EXPECT_EQ(problem_of({.schema = std::string{"a\0b", 3}}), "postgres_options::schema has a NUL");
  EXPECT_EQ(problem_of({.schema = "pg_shop"}),
            "postgres_options::schema begins with pg_, as only PostgreSQL's own may");
  EXPECT_EQ(problem_of({.schema = "$user"}),
            "postgres_options::schema is $user, which stands for the name of the role");
  EXPECT_EQ((postgres_options{.schema = "PG_$user"}.problem()), nullptr);
  EXPECT_EQ(problem_of({.partitions = 0}), "postgres_options::partitions is not 1 to 1,024");
  EXPECT_EQ(problem_of({.partitions = 1025}), "postgres_options::partitions is not 1 to 1,024");
  EXPECT_EQ(problem_of({.connect_timeout = 9ms}), "postgres_options::connect_timeout is less than 10 ms");
  EXPECT_EQ(problem_of({.answer_timeout = 9ms}), "postgres_options::answer_timeout is less than 10 ms");
  EXPECT_EQ(problem_of({.repeat_timeout = 9ms}), "postgres_options::repeat_timeout is less than 10 ms");
  constexpr std::chrono::nanoseconds longest = std::chrono::days{24};
  EXPECT_EQ(
      (postgres_options{.connect_timeout = longest, .answer_timeout = longest, .repeat_timeout = longest}.problem()),
      nullptr);
  EXPECT_EQ(problem_of({.connect_timeout = longest + 1ns}), "postgres_options::connect_timeout is more than 24 days");
  EXPECT_EQ(problem_of({.answer_timeout = longest + 1ns}), "postgres_options::answer_timeout is more than 24 days");
  EXPECT_EQ(problem_of({.repeat_timeout = 9223372036854775807ns}),
            "postgres_options::repeat_timeout is more than 24 days");
}

TEST_F(postgres_open, invalid_option_is_refused) {
  on.options.repeat_timeout = 0ns;
  EXPECT_EQ(refused(on.server.conninfo()), "postgres_options::repeat_timeout is less than 10 ms");
}

TEST_F(postgres_open, service_without_loop_is_refused) {
  tickwheel::manual_service manual;
  const auto store = on.make_store();
  EXPECT_EQ(store->open(manual.timers), UV_EINVAL);
  EXPECT_EQ(store->problem(), "postgres_store: the timer_service is not on a libuv loop");
}

TEST_F(postgres_open, store_may_be_closed_after_a_walk_closed_its_handles) {
  durable::scheduler of{on.timers(), on.make_store(), {}};
  bool is_open = false;
  ASSERT_EQ(of.open([&](int error) noexcept { is_open = error == 0; }), 0);
  while (!is_open) on.turn();
  const auto close = [](uv_handle_t* h, void*) {
    if (uv_handle_get_type(h) == UV_POLL) uv_close(h, nullptr);
  };
  uv_walk(on.timers().loop(), close, nullptr);
  on.turn();
  of.close();
  on.turn();
}

class postgres_join : public testing::Test {
 protected:
  const psql& admin() const { return admin_; }
  postgres_fixture on;

 private:
  psql admin_{on.server.conninfo()};
};

TEST_F(postgres_join, makes_schema_with_64_partitions) {
  on.options.partitions = durable::postgres_options{}.partitions;
  EXPECT_EQ(try_to_join(on).partitions, 64);
  EXPECT_EQ(on.other().run("select count(*) from parts"), "64");
}

// The scripts that make the tables have these words.
TEST_F(postgres_join, schema_may_have_the_words_of_the_scripts) {
  const std::string usual = on.options.schema;
  for (const auto* const name : {"SCHEMA", "MY_SCHEMA", "MY_PARTITIONS", "$user'$$ SCHEMA"}) {
    on.options.schema = name;
    const join_answer a = try_to_join(on);
    EXPECT_EQ(a.partitions, 4) << name << ": " << a.problem;
    const std::string function = on.schema() + ".tickwheel_schedule('t', now() + interval '1 hour', '')";
    EXPECT_EQ(admin().run("select " + function), "scheduled") << name;
    EXPECT_EQ(admin().try_to_run("drop schema " + on.schema() + " cascade"), "") << name;
  }
  on.options.schema = usual;
}

TEST_F(postgres_join, longest_timeouts_are_taken_by_the_server) {
  on.options.connect_timeout = on.options.answer_timeout = on.options.repeat_timeout = std::chrono::days{24};
  EXPECT_EQ(try_to_join(on).partitions, 4);
}

TEST_F(postgres_join, service_leads_to_its_server) {
  const std::string services = on.server.folder() + "/services";
  std::ofstream{services} << "[shop]\nhost=" + on.server.folder() + "\nport=5432\nuser=tester\ndbname=postgres\n";
  ASSERT_EQ(::setenv("PGSERVICEFILE", services.c_str(), 1), 0);
  ASSERT_EQ(::setenv("PGHOST", "127.0.0.1", 1), 0);
  ASSERT_EQ(::setenv("PGPORT", "1", 1), 0);
  EXPECT_EQ(try_to_join(on, "service=shop").partitions, 4);
  for (const char* const variable : {"PGSERVICEFILE", "PGHOST", "PGPORT"}) ::unsetenv(variable);
}

TEST_F(postgres_join, partitions_are_fixed_when_schema_is_made) {
  EXPECT_EQ(try_to_join(on).partitions, 4);
  on.options.partitions = 7;
  EXPECT_EQ(try_to_join(on).partitions, 4);
}

TEST_F(postgres_join, nodes_that_come_together_make_one_schema) {
  std::vector<std::unique_ptr<durable::store>> stores;
  std::vector<asked<durable::join_call>> joins(4);
  for (auto& join : joins) {
    stores.push_back(on.make_store());
    ASSERT_EQ(stores.back()->open(on.timers()), 0);
    join.name = std::to_string(stores.size());
    join.lease = 1h;
    call(*stores.back(), join);
  }
  for (auto& join : joins) {
    call_runner{on}.wait_for(join);
    EXPECT_EQ(join.status, store_status::ok);
    EXPECT_EQ(join.error, 0);
  }
  for (auto& store : stores) store->close();
}

TEST_F(postgres_join, schema_that_an_admin_made_is_used) {
  admin().run("create role plain login; create schema " + on.schema() + " authorization plain");
  const std::string as_plain = "host=" + on.server.folder() + " user=plain dbname=postgres";
  EXPECT_EQ(try_to_join(on, as_plain).error, 0);
  on.other().run("drop schema " + on.schema() + " cascade; drop role plain");
}

TEST_F(postgres_join, role_without_rights_is_refused) {
  admin().run("drop role if exists plain; create role plain login");
  const std::string as_plain = "host=" + on.server.folder() + " user=plain dbname=postgres";
  expect_refused(try_to_join(on, as_plain), UV_EACCES, "this role may not make schema");
  EXPECT_EQ(try_to_join(on).error, 0);
  const join_answer without_usage = try_to_join(on, as_plain);
  expect_refused(without_usage, UV_EACCES, "permission denied for schema");
  expect_refused(without_usage, UV_EACCES, "; grant usage on schema");
  admin().run("grant usage on schema " + on.schema() + " to plain");
  const join_answer without_tables = try_to_join(on, as_plain);
  expect_refused(without_tables, UV_EACCES, "permission denied for table meta");
  expect_refused(without_tables, UV_EACCES, "; grant usage on schema");
  admin().run("grant select on all tables in schema " + on.schema() + " to plain");
  expect_refused(try_to_join(on, as_plain), UV_EACCES, "grant usage on schema");
  admin().run("grant select, insert, update, delete on all tables in schema " + on.schema() +
              " to plain; grant usage, update, select on all sequences in schema " + on.schema() + " to plain");
  EXPECT_EQ(try_to_join(on, as_plain).error, 0);
  admin().run("drop owned by plain; drop role plain");
}

// A server gives process numbers anew. Roles do not see when the backends of others have started.
TEST_F(postgres_join, former_backend_is_told_from_one_with_its_number) {
  EXPECT_EQ(try_to_join(on).error, 0);
  admin().run("drop role if exists own; drop role if exists alien; create role own login; create role alien login");
  admin().run("grant usage on schema " + on.schema() + " to own");
  const auto as = [this](const std::string& role) {
    return "host=" + on.server.folder() + " dbname=postgres user=" + role;
  };
  {
    const psql own{as("own")}, second{as("own")}, alien{as("alien")};
    own.run("set search_path = " + on.schema());
    const auto remaining = [&](const psql& backend, const std::string& started, const std::string& role) {
      return own.run("select end_backends(array[" + std::to_string(PQbackendPID(backend.get())) + "], array[" +
                     started + "], array['" + role + "'::regrole::oid], false)");
    };
    EXPECT_EQ(remaining(alien, "1", "own"), "0");
    EXPECT_EQ(remaining(alien, "1", "alien"), "1") << "it may be the one that is meant";
    EXPECT_EQ(remaining(second, "1", "own"), "0");
    EXPECT_EQ(second.run("select 1"), "1");
    EXPECT_EQ(alien.run("select 1"), "1");
    const std::string started = second.run(
        "select (extract(epoch from backend_start) * 1000000)::bigint from pg_stat_activity where pid = "
        "pg_backend_pid()");
    EXPECT_EQ(remaining(second, started, "own"), "1");
  }
  admin().run("revoke usage on schema " + on.schema() + " from own; drop role own; drop role alien");
}

TEST_F(postgres_join, wrong_password_is_refused) {
  admin().run("drop role if exists secret; create role secret login superuser password 'right'");
  const std::string as_secret = "host=" + on.server.folder() + " user=secret dbname=postgres password=";
  expect_refused(try_to_join(on, as_secret + "wrong"), UV_EACCES, "password authentication failed for user \"secret\"");
  expect_refused(try_to_join(on, as_secret), UV_EACCES, "no password supplied");
  EXPECT_EQ(try_to_join(on, as_secret + "right").error, 0);
}

TEST_F(postgres_join, missing_database_and_role_are_refused) {
  expect_refused(try_to_join(on, on.server.conninfo("dbname=nothing")), UV_ENOENT,
                 "database \"nothing\" does not exist");
  expect_refused(try_to_join(on, on.server.conninfo("user=nobody_here")), UV_EACCES,
                 "role \"nobody_here\" does not exist");
}

TEST_F(postgres_join, database_of_another_encoding_is_refused) {
  admin().run("drop database if exists latin");
  admin().run("create database latin encoding 'LATIN1' template template0 locale 'C'");
  expect_refused(try_to_join(on, on.server.conninfo("dbname=latin")), UV_ENOTSUP,
                 "the encoding of the database is LATIN1");
}

TEST_F(postgres_join, server_that_is_too_old_is_refused) {
  const std::string folder = on.server.folder() + "/old";
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  const scripted_server old{folder, "13.14"};
  expect_refused(try_to_join(on, "host=" + folder + " user=tester dbname=postgres"), UV_ENOTSUP,
                 "the server is PostgreSQL 13; it must be 14 or newer");
  EXPECT_EQ(on.log.size(), 1U);
}

TEST_F(postgres_join, newer_schema_is_refused) {
  EXPECT_EQ(try_to_join(on).error, 0);
  on.other().run("update meta set version = 2");
  expect_refused(try_to_join(on), UV_ENOTSUP, "has version 2; this tickwheel knows up to 1");
}

TEST_F(postgres_join, tables_of_another_application_are_refused) {
  admin().run("create schema " + on.schema() + "; create table " + on.schema() + ".meta(key text)");
  expect_refused(try_to_join(on), UV_EFTYPE, "has tables of another application");
  admin().run("drop table " + on.schema() + ".meta; create table " + on.schema() + ".tasks(key text)");
  expect_refused(try_to_join(on), UV_EFTYPE, "has tables of another application");
  EXPECT_EQ(on.other().run(
                "select count(*) from pg_class where relnamespace = quote_ident(current_schema())::regnamespace and "
                "relkind = 'r'"),
            "1")
      << "something was left behind";
}

TEST_F(postgres_join, refused_connection_is_an_outage) {
  const join_answer a = try_to_join(on, "host=" + on.server.folder() + "/nowhere");
  EXPECT_EQ(a.status, store_status::unavailable);
  EXPECT_NE(a.problem.find("No such file or directory"), std::string::npos) << a.problem;
  EXPECT_EQ(on.log.size(), 1U);
}

TEST_F(postgres_join, read_only_server_is_passed_over) {
  admin().run("drop database if exists readonly");
  admin().run("create database readonly");
  admin().run("alter database readonly set default_transaction_read_only = on");
  const join_answer a = try_to_join(on, on.server.conninfo("dbname=readonly"));
  EXPECT_EQ(a.status, store_status::unavailable);
  EXPECT_NE(a.problem.find("session is read-only"), std::string::npos) << a.problem;
}

TEST_F(postgres_join, name_is_free_when_its_lease_has_run_out) {
  node first{on}, second{on};
  ASSERT_EQ(first.join(1h, "b", 300ms), 0);
  const auto before = std::chrono::steady_clock::now();
  on.advance(400ms);
  EXPECT_EQ(second.join(1h, "b"), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  asked<durable::renew_call> c;
  first.renew(c);
  EXPECT_TRUE(c.is_buried);
}

}  // namespace
