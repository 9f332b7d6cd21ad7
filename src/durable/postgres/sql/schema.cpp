#include "schema.hpp"

#include "client_functions.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace tickwheel::durable::postgres {

namespace {

// Times are nanoseconds since 1970. `state` is a task_state. `rev` of a running row is its token. A dead row has the largest
// `at`.
//
// No index has the state in its condition: `begin` then changes no index, and PostgreSQL can keep the new version of a row on
// the same page (a HOT update).
//
// `links` has the backends of each session and their role, so that other nodes can end them before they bury the session. `server`
// of `meta` is the start of the server that last handed out revisions.
//
// Each table has a primary key: a publication for all tables then lets rows be changed.
constexpr const char* tables = R"(
create table meta(
  one smallint primary key default 1 check (one = 1),
  version integer not null,
  partitions integer not null,
  keep_finished bigint not null default 300000000000,
  server bigint not null default 0);
create sequence revisions as bigint;
create table nodes(
  session bigint primary key,
  name text collate "C" not null unique,
  beat bigint not null,
  expires bigint not null,
  lease bigint not null,
  keep_finished bigint not null,
  is_starting boolean not null) with (fillfactor = 50);
create table links(
  session bigint not null,
  pid bigint not null,
  started bigint not null,
  role oid not null default quote_ident(session_user)::regrole::oid,
  primary key (session, pid, started));
create table parts(part smallint primary key, session bigint) with (fillfactor = 50);
create table tasks(
  id text collate "C" primary key,
  part smallint not null,
  state smallint not null default 0,
  at bigint not null,
  due bigint not null,
  period bigint not null,
  rev bigint not null,
  ended bigint not null default 0,
  session bigint,
  attempt integer not null default 0,
  lost smallint not null default 0,
  stop boolean not null default false,
  gone bigint,
  payload bytea,
  error text) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01);
create index tasks_due on tasks(part, at, id) where gone is null;
create index tasks_gone on tasks(gone) where gone is not null;
create index tasks_dead on tasks(id) where at = 9223372036854775807;

create function now_ns() returns bigint language sql volatile as
  'select (extract(epoch from clock_timestamp()) * 1000000)::bigint * 1000';
create function forgotten(now bigint) returns bigint language sql volatile as
  'select now - coalesce((select max(n.keep_finished) from nodes n), (select m.keep_finished from meta m))';
create function next_period(due bigint, period bigint, now bigint) returns bigint language sql immutable as
  'select case when period > 0 and period < 7258118400000000000 - s.first then s.first + period end
   from (select case when now > due and period > 0 then now - (now - due) % period else due end as first) s';
create function partition_of(id text) returns smallint language sql immutable as
  'select ((hashtextextended(id collate "C", 0) & 9223372036854775807) % PARTITIONS)::smallint';

-- Ends backends, and returns how many are still there. `busy`: only those that do something. One that waits for its client holds
-- no lock, and what it is told later is checked then. A process number may have been given to another backend meanwhile. If the start
-- of a backend is hidden, because another role has it, that role and the database tell.
create function end_backends(pids bigint[], started bigint[], roles oid[], busy boolean) returns bigint
language plpgsql volatile as $$
declare
  backend bigint;
  remaining bigint := 0;
begin
  for backend in
    select a.pid from unnest(pids, started, roles) u(pid, started, role) join pg_stat_activity a on a.pid = u.pid
    where a.pid <> pg_backend_pid()
      and not (busy and a.state is not distinct from 'idle')
      and case when a.backend_start is null then a.usesysid = u.role and a.datname = current_database()
        else (extract(epoch from a.backend_start) * 1000000)::bigint = u.started end
  loop
    remaining := remaining + 1;
    begin
      perform pg_terminate_backend(backend::integer);
    exception when insufficient_privilege then
      null;
    end;
  end loop;
  return remaining;
end $$;

-- Lifts the counter of revisions to the clock, so that a server that lost its last commits gives none twice. The counter stays at
-- least a second away from the numbers that other connections take meanwhile.
create function lift_revisions() returns void language plpgsql volatile as $$
declare
  clock bigint;
  this_server bigint := (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint;
  last bigint;
begin
  perform pg_advisory_xact_lock('revisions'::regclass::oid::bigint);
  clock := now_ns() / 1000;
  select last_value into last from revisions;
  if clock - last >= 1000000 then
    perform setval('revisions', clock + 1000000);
  elsif this_server <> (select server from meta) then
    perform setval('revisions', greatest(clock, last) + 1000000);
  else
    return;
  end if;
  update meta set server = this_server where server <> this_server;
end $$;
)";

// Each brings the tables to the next version.
constexpr std::array versions{tables};
static_assert(versions.size() == schema_version);

void replace_all(std::string& in, std::string_view what, std::string_view by) {
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + by.size()))
    in.replace(at, what.size(), by);
}

std::string milliseconds(std::chrono::nanoseconds t) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(t).count());
}

// One node at a time makes the tables of a schema.
std::string lock_number(const postgres_options& options) {
  return "hashtextextended(" + quoted_text("tickwheel " + options.schema) + ", 0)";
}

}  // namespace

std::string quoted_name(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string quoted_text(std::string_view text) {
  std::string quoted = " E'";
  for (const char c : text) quoted.append(c == '\'' || c == '\\' ? 2 : 1, c);
  return quoted + '\'';
}

std::string problem_of_encoding(std::string_view encoding) {
  if (encoding == "UTF8") return {};
  return "the encoding of the database is " + std::string{encoding} + "; it must be UTF8";
}

std::string look_script(const postgres_options& options) {
  // the script that made the tables may have failed within its transaction
  return "rollback; select exists (select from pg_namespace where nspname =" + quoted_text(options.schema) +
         "), to_regclass(" + quoted_text(quoted_name(options.schema) + ".meta") + ") is not null";
}

std::string meta_script(const postgres_options& options) {
  const std::string schema = quoted_name(options.schema);
  const std::string counter = quoted_text(schema + ".revisions");
  std::string rights =
      "has_sequence_privilege(" + counter + ", 'select') and has_sequence_privilege(" + counter + ", 'update')";
  const auto need = [&](const char* table, const char* right) {
    rights += " and has_table_privilege(" + quoted_text(schema + "." + table) + ", '" + right + "')";
  };
  for (const char* const table : {"tasks", "nodes", "parts", "links"})
    for (const char* const right : {"select", "insert", "update", "delete"}) need(table, right);
  for (const char* const right : {"select", "update"}) need("meta", right);
  return "select version, partitions, " + rights + " from " + schema + ".meta";
}

std::string make_script(const postgres_options& options, bool has_schema, int version) {
  const std::string schema = quoted_name(options.schema);
  std::string script =
      "begin; set local statement_timeout = 0; set local lock_timeout = 0; select pg_advisory_xact_lock(" +
      lock_number(options) + ");";
  if (!has_schema) script += "create schema if not exists " + schema + ";";
  script += "set local search_path = " + schema + ";";
  const std::string next = std::to_string(version + 1);
  if (version != 0)
    script += "do $$ begin if (select version from meta) <> " + std::to_string(version) +
              " then raise exception 'another node was faster' using errcode = '42P07'; end if; end $$;";
  std::string made = versions[static_cast<std::size_t>(version)];
  if (version == 0)
    made += std::string{client_functions} +
            "insert into meta(version, partitions) values(1, PARTITIONS);"
            "insert into parts(part) select generate_series(0, PARTITIONS - 1);";
  else
    made += "update meta set version = " + next + ";";
  // the name of the schema comes last: it may have these words
  replace_all(made, "PARTITIONS", std::to_string(options.partitions));
  replace_all(made, "SCHEMA", schema);
  return script + made + "commit";
}

bool is_outdated(const failure& f) {
  constexpr std::array states{"42P07", "42P06", "42710", "42723", "23505"};  // something exists
  return std::find(states.begin(), states.end(), f.sqlstate()) != states.end();
}

std::string advice_on_rights(const postgres_options& options) {
  const std::string schema = quoted_name(options.schema);
  return "grant usage on schema " + schema +
         ", select, insert, update and delete on all tables, and select and update on all sequences in it";
}

std::string settings_script(const postgres_options& options, link_role role) {
  // The settings of a client or of its role may obstruct the store.
  std::string script =
      "set client_encoding = 'UTF8'; set client_min_messages = warning; set search_path = " +
      quoted_name(options.schema) +
      "; select set_config('synchronous_commit', 'on', false) where "
      "current_setting('synchronous_commit') <> 'remote_apply'; "
      "set default_transaction_isolation = 'read committed'; set default_transaction_deferrable = off; "
      "set idle_in_transaction_session_timeout = 0; set idle_session_timeout = 0; "
      "set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off; set jit = off; "
      "set plan_cache_mode = force_generic_plan; ";
  script += "set statement_timeout = " + milliseconds(options.answer_timeout) + ";";
  script += std::string{"set lock_timeout = "} + (role == link_role::clock ? "1000;" : "200;");
  return script +
         "select pid, (extract(epoch from backend_start) * 1000000)::bigint, (extract(epoch from "
         "pg_postmaster_start_time()) * "
         "1000000)::bigint, current_setting('fsync'), "
         "current_setting('full_page_writes'), current_setting('server_encoding') "
         "from pg_stat_get_activity(pg_backend_pid())";
}

std::string prepare_script(link_role role) {
  std::string script;
  for (const statement_text& s : all_statements())
    if ((s.roles >> static_cast<unsigned>(role) & 1U) != 0)
      script += std::string{"prepare "} + quoted_name(s.name) + " as " + s.sql + ";";
  return script;
}

std::string lift_script() { return "select lift_revisions()"; }

std::string end_script(const std::vector<std::pair<std::int64_t, std::int64_t>>& backends) {
  std::string pids, started;
  for (const auto& [pid, start] : backends) {
    const char* const separator = pids.empty() ? "" : ",";
    pids.append(separator).append(std::to_string(pid));
    started.append(separator).append(std::to_string(start));
  }
  return "select end_backends(p.pids, '{" + started +
         "}', array_fill(quote_ident(session_user)::regrole::oid, array[cardinality(p.pids)]), false) from (values('{" +
         pids + "}'::bigint[])) p(pids)";
}

}  // namespace tickwheel::durable::postgres
