#include "statements.hpp"

#include <array>

namespace tickwheel::durable::postgres {

namespace {

constexpr unsigned on(link_role role) noexcept { return 1U << static_cast<unsigned>(role); }
constexpr unsigned on_all = on(link_role::starts) | on(link_role::requests) | on(link_role::clock);

// Each statement reads the clock once, and answers it in the first column of each row; a row with nothing else in it says that
// there is nothing else. Tasks that ended at `forgotten` or before are as good as none.
#define TICKWHEEL_NOW \
  "with n as materialized (select t.now, forgotten(t.now) as forgotten from (select now_ns() as now offset 0) t), "
// The session, if it is a member. The lock excludes its burial until this transaction has ended.
#define TICKWHEEL_ME "me as (select session from nodes where session = $1 for key share), "
// The columns of a `task_info`.
#define TICKWHEEL_INFO                                                                             \
  "t.id, t.state, case when t.state < 2 then t.at else 9223372036854775807 end, t.due, t.period, " \
  "t.attempt, t.lost, t.stop, coalesce(t.error, ''), coalesce(t.payload, '')"
#define TICKWHEEL_KNOWN "(t.gone is null or t.gone > (select forgotten from n))"

constexpr const char* begin_sql = TICKWHEEL_NOW TICKWHEEL_ME R"(
c as materialized (
  select t.id, u.i from unnest($2::text[], $3::bigint[]) with ordinality u(id, rev, i) join tasks t on t.id = u.id
  where t.rev = u.rev and t.state = 0 and t.at <= (select now from n) and exists (select from me)
    and exists (select from parts p where p.part = t.part and p.session = $1)
  order by t.id for update of t skip locked),
w as (
  update tasks t set state = 1, session = $1, rev = nextval('revisions'), attempt = t.attempt + 1
  from c where t.id = c.id returning c.i, t.rev, t.attempt, t.lost, t.due, t.period, t.payload)
select n.now, w.* from n left join w on true)";

// How: 0 done, 1 again, 2 dead. States: 0 pending, 1 running, 2 dead, 3 finished, 4 cancelled.
constexpr const char* finish_sql = TICKWHEEL_NOW R"(
c as materialized (
  select t.id, u.i, u.token, u.how, u.at, u.back, u.error, t.stop, t.period,
    next_period(t.due, t.period, (select now from n)) as next
  from unnest($1::text[], $2::bigint[], $3::smallint[], $4::bigint[], $5::boolean[], $6::text[])
    with ordinality u(id, token, how, at, back, error, i)
  join tasks t on t.id = u.id
  where t.state = 1 and t.rev = u.token
  order by t.id for update of t skip locked),
d as materialized (
  select c.*, case when how = 0 and period = 0 then 3 when stop then 4 when how = 0 and next is null then 3
    when how = 2 then 2 else 0 end::smallint as state from c),
w as (
  update tasks t set state = d.state, rev = nextval('revisions'), ended = d.token, session = null,
    stop = case when d.state > 2 then false else t.stop end,
    gone = case when d.state > 2 then (select now from n) end,
    at = case when d.state > 2 then t.at when d.how = 0 then d.next when d.how = 1 then d.at
      else 9223372036854775807 end,
    due = case when d.state = 0 and d.how = 0 then d.next else t.due end,
    attempt = case when d.state = 0 and d.how = 0 then 0 when d.how = 1 and d.back then greatest(t.attempt - 1, 0)
      else t.attempt end,
    lost = case when d.state = 0 and d.how = 0 then 0 else t.lost end,
    payload = case when d.state > 2 then null else t.payload end,
    error = case when d.how <> 0 and d.error <> '' then d.error when d.state = 0 and d.how = 0 then null
      else t.error end
  from d where t.id = d.id
  returning d.i, t.state, t.part, t.id, t.rev, t.at, length(t.payload), t.lost)
select n.now, w.* from n left join w on true)";

// Inserts tasks whose ids are free, and passes over the others. Searches the index less often than `put`.
constexpr const char* put_new_sql = R"(
with n as materialized (select now_ns() as now),
w as (
  insert into tasks as t(id, part, at, due, period, rev, payload)
  select u.id, partition_of(u.id), u.due, u.due, u.period, nextval('revisions'), u.payload
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[]) u(id, due, period, payload)
  order by u.id collate "C"
  on conflict (id) do nothing
  returning t.id, t.rev, t.part)
select n.now, w.id, w.rev, w.part, true from n left join w on true)";

// A row with only an id says that a trigger has dropped the change of the task with this id.
constexpr const char* put_sql = TICKWHEEL_NOW R"(
u as materialized (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::boolean[])
    u(id, due, period, payload, replaces)),
l as materialized (
  select t.id, coalesce(t.gone <= (select forgotten from n), false) as is_forgotten from u join tasks t on t.id = u.id
  where t.gone <= (select forgotten from n) or (u.replaces and t.state <> 1)
  order by t.id for update of t skip locked),
w as (
  insert into tasks as t(id, part, at, due, period, rev, payload)
  select u.id, partition_of(u.id), u.due, u.due, u.period, nextval('revisions'), u.payload
  from u left join tasks k on k.id = u.id where k.id is null or u.id in (select l.id from l)
  order by u.id collate "C"
  on conflict (id) do update set state = 0, part = excluded.part, at = excluded.at, due = excluded.due,
    period = excluded.period, rev = excluded.rev, payload = excluded.payload, session = null, attempt = 0, lost = 0,
    stop = false, gone = null, error = null,
    ended = case when t.gone <= (select forgotten from n) then 0 else t.ended end
  where t.gone <= (select forgotten from n)
    or (t.state <> 1 and excluded.id in (select u.id from u where u.replaces))
  returning t.id, t.rev, t.part, t.xmax = 0 as is_new)
select n.now, x.* from n left join (
  select w.id, w.rev, w.part, w.is_new or w.id in (select l.id from l where l.is_forgotten) from w
  union all select l.id, null, null, null from l where l.id not in (select w.id from w)) x on true)";

// The last column is false if a trigger has dropped the change. Nothing else keeps it from a row that this statement has locked.
constexpr const char* cancel_sql = TICKWHEEL_NOW R"(
c as materialized (
  select t.id, u.i, t.state, t.stop from unnest($1::text[]) with ordinality u(id, i) join tasks t on t.id = u.id
  where t.state < 3 order by t.id for update of t skip locked),
w as (
  update tasks t set state = 4, rev = nextval('revisions'), gone = (select now from n), payload = null,
    at = case when c.state = 2 then t.due else t.at end
  from c where t.id = c.id and c.state <> 1 returning c.i),
s as (update tasks t set stop = true from c where t.id = c.id and c.state = 1 and not c.stop returning c.i)
select n.now, c.i, c.state, c.stop or c.i in (select w.i from w) or c.i in (select s.i from s) from n left join c on true)";

constexpr const char* revive_sql = TICKWHEEL_NOW R"(
c as materialized (
  select t.id, u.i from unnest($1::text[]) with ordinality u(id, i) join tasks t on t.id = u.id
  where t.state = 2 order by t.id for update of t skip locked),
w as (
  update tasks t set state = 0, at = (select now from n), rev = nextval('revisions'), attempt = 0, lost = 0, error = null
  from c where t.id = c.id returning c.i, t.rev, t.part)
select n.now, w.* from n left join w on true)";

constexpr const char* load_sql = R"(
select r.i, x.id, x.rev, x.at, x.bytes, x.lost
from unnest($1::smallint[], $2::bigint[], $3::text[]) with ordinality r(part, at, id, i),
lateral (
  select t.id, t.rev, t.at, length(t.payload) as bytes, t.lost from tasks t
  where t.part = r.part and t.gone is null and (t.at, t.id) > (r.at, r.id) and t.at <= (select now_ns() + $4)
    and t.state = 0
  order by t.at, t.id limit $5) x)";

// Answers the tasks that `recover` finds, and whether they are not due.
constexpr const char* find_lost_sql = TICKWHEEL_NOW TICKWHEEL_ME R"(
f as materialized (
  select x.id, x.at from parts p, lateral (
    select t.id, t.at from tasks t
    where t.part = p.part and t.gone is null and t.state = 1
      and t.id <> all($5::text[])
      and t.at <= (select case when $2::bigint = 0 then now else $2::bigint end from n)
      and not exists (select from nodes o where o.session = t.session)
    offset 0) x
  where p.session = $1 and p.part >= $3::bigint and p.part < $4::bigint and exists (select from me) limit 1000)
select n.now, f.id, f.at > n.now from n left join f on true)";

// Answers how many tasks it has found, how many are pending and how many dead now, and how many it has changed. $2: tasks up to this time; 0:
// up to now. $4 to $5: the partitions. $6: ids; $7: only these, or all others. `offset 0` keeps the planner from reading the index of all
// partitions. The revision tells that nobody has recovered and started the task meanwhile. `nodes` cannot: the statement does not see a node
// that joined since it began.
constexpr const char* recover_sql = TICKWHEEL_NOW TICKWHEEL_ME R"(
f as materialized (
  select x.id, x.rev from parts p, lateral (
    select t.id, t.rev from tasks t
    where t.part = p.part and t.gone is null and t.state = 1
      and (t.id = any($6::text[])) = $7::boolean
      and t.at <= (select case when $2::bigint = 0 then now else $2::bigint end from n)
      and not exists (select from nodes o where o.session = t.session)
    offset 0) x
  where p.session = $1 and p.part >= $4::bigint and p.part < $5::bigint and exists (select from me) limit 1000),
c as materialized (
  select t.id, next_period(t.due, t.period, (select now from n)) as next, t.stop, t.lost + 1 as lost,
    t.attempt >= $3::bigint as is_tired, t.period
  from f join tasks t on t.id = f.id
  where t.state = 1 and t.rev = f.rev
  order by t.id for update of t skip locked),
d as materialized (
  select c.*, case when stop then 4 when lost >= 3 or (is_tired and period = 0) then 2
    when is_tired and next is null then 3 else 0 end::smallint as state from c),
w as (
  update tasks t set state = d.state, rev = nextval('revisions'), session = null,
    stop = case when d.state > 2 then false else t.stop end,
    gone = case when d.state > 2 then (select now from n) end,
    at = case when d.state = 2 then 9223372036854775807 when d.state = 0 and d.is_tired then d.next else t.at end,
    due = case when d.state = 0 and d.is_tired then d.next else t.due end,
    attempt = case when d.state = 0 and d.is_tired then 0 else t.attempt end,
    lost = case when d.state = 0 and d.is_tired then 0 else d.lost end,
    payload = case when d.state > 2 then null else t.payload end,
    error = case when d.state = 0 and d.is_tired then null else t.error end
  from d where t.id = d.id returning t.state)
select n.now, (select count(*) from f), (select count(*) from w where state = 0),
  (select count(*) from w where state = 2), (select count(*) from w) from n)";

// Answers the tasks that it has not given back: another client holds their rows, or a trigger has dropped the change.
constexpr const char* give_back_sql = TICKWHEEL_NOW TICKWHEEL_ME R"(
c as materialized (
  select t.id, u.i, t.stop from unnest($2::text[]) with ordinality u(id, i) join tasks t on t.id = u.id
  where t.state = 1 and t.session = $1 and exists (select from me) order by t.id for update of t skip locked),
w as (
  update tasks t set state = case when c.stop then 4 else 0 end, rev = nextval('revisions'), session = null, stop = false,
    gone = case when c.stop then (select now from n) end,
    attempt = greatest(t.attempt - 1, 0),
    payload = case when c.stop then null else t.payload end
  from c where t.id = c.id returning c.i)
select n.now, r.i from n left join (
  select u.i from unnest($2::text[]) with ordinality u(id, i) join tasks t on t.id = u.id
  where t.state = 1 and t.session = $1 and u.i not in (select w.i from w)) r on true)";

constexpr std::array texts{
    statement_text{statement::read_clock, "read_clock", "select now_ns()", on_all},
    // For the rest of the transaction. Our writes pass over rows that are locked, so what waits is a trigger, or the insert of an id that
    // another client is inserting.
    statement_text{statement::wait_briefly, "wait_briefly", "select set_config('lock_timeout', '20', true)", on_all},
    statement_text{statement::look, "look",
                   TICKWHEEL_NOW "x as (select 1) "
                                 "select n.now, u.i, t.state, t.rev, t.ended, t.part, t.gone <= n.forgotten "
                                 "from n cross join unnest($1::text[]) with ordinality u(id, i) "
                                 "left join tasks t on t.id = u.id",
                   on_all},
    // A commit waits for the synchronous standby only if it has written something.
    statement_text{statement::await_standby, "await_standby",
                   "select pg_logical_emit_message(true, 'tickwheel', '') where "
                   "current_setting('synchronous_standby_names') <> ''",
                   on_all},
    statement_text{statement::begin, "begin", begin_sql, on(link_role::starts)},
    statement_text{statement::finish, "finish", finish_sql, on(link_role::starts)},
    statement_text{
        statement::release, "release",
        // The lock on the next owner keeps it from saying meanwhile that it starts nothing. It holds up its renewals, so
        // it is taken last, and not waited for: the partitions are then free.
        "with mine as materialized ("
        "select part from parts where part = any($2::smallint[]) and session = $1 order by part for update), "
        "next as materialized (select session from nodes "
        "where session = $3 and is_starting and (select count(*) from mine) > 0 for share skip locked), "
        "moved as (update parts p set session = (select session from next) from mine m where p.part = m.part "
        "returning p.part) "
        "select pg_notify(current_schema()::text, 'released to ' || coalesce((select session from next), 0)) "
        "where exists (select from moved)",
        on(link_role::starts)},
    statement_text{statement::put_new, "put_new", put_new_sql, on(link_role::requests)},
    statement_text{statement::put, "put", put_sql, on(link_role::requests)},
    statement_text{statement::cancel, "cancel", cancel_sql, on(link_role::requests)},
    statement_text{statement::revive, "revive", revive_sql, on(link_role::requests)},
    statement_text{statement::get, "get",
                   TICKWHEEL_NOW
                   "x as (select 1) select n.now, u.i, " TICKWHEEL_INFO
                   " from n cross join unnest($1::text[]) with ordinality u(id, i) join tasks t on t.id = u.id "
                   "where t.gone is null or t.gone > n.forgotten",
                   on(link_role::requests)},
    statement_text{statement::list, "list",
                   TICKWHEEL_NOW
                   "x as (select 1) select n.now, 0, " TICKWHEEL_INFO
                   " from n cross join lateral (select * from tasks t where t.state = $1::bigint and t.id > $2::text "
                   "and " TICKWHEEL_KNOWN " order by t.id limit $3) t order by t.id",
                   on(link_role::requests)},
    statement_text{statement::list_dead, "list_dead",
                   TICKWHEEL_NOW
                   "x as (select 1) select n.now, 0, " TICKWHEEL_INFO
                   " from n cross join lateral (select * from tasks t where t.at = 9223372036854775807 and "
                   "t.state = 2 and t.id > $1::text order by t.id limit $2) t order by t.id",
                   on(link_role::requests)},
    statement_text{
        statement::purge, "purge",
        TICKWHEEL_NOW
        "d as (delete from tasks t where t.id = any(array(select g.id from tasks g where g.gone is not null and "
        "g.gone >= $2 and g.gone <= (select forgotten from n) order by g.gone limit $1 for update skip locked)) "
        "returning t.gone) select n.now, count(d.gone), coalesce(max(d.gone), 0) from n left join d on true group by "
        "n.now",
        on(link_role::requests)},
    statement_text{statement::find_name, "find_name",
                   TICKWHEEL_NOW "x as (select 1) select n.now, o.session, o.beat, o.expires, o.lease from n "
                                 "left join nodes o on o.name = $1",
                   on(link_role::clock)},
    statement_text{statement::new_session, "new_session", "select nextval('revisions')", on(link_role::clock)},
    statement_text{statement::join, "join",
                   TICKWHEEL_NOW
                   "w as (insert into nodes(session, name, beat, expires, lease, keep_finished, is_starting) "
                   "select $1::bigint, $2::text, 1, n.now + $3::bigint, $3::bigint, $4::bigint, true from n on "
                   "conflict (name) do nothing returning session) "
                   "select n.now, w.session from n left join w on true",
                   on(link_role::clock)},
    statement_text{statement::keep_meta, "keep_meta", "update meta set keep_finished = $1", on(link_role::clock)},
    statement_text{statement::register_links, "register_links",
                   "insert into links(session, pid, started) select o.session, u.pid, u.started "
                   "from nodes o, unnest($2::bigint[], $3::bigint[]) u(pid, started) where o.session = $1",
                   on(link_role::clock)},
    statement_text{statement::renew, "renew",
                   // news for the others: it starts tasks as of its first renewal, or does not any more
                   TICKWHEEL_NOW
                   "w as (update nodes o set beat = o.beat + 1, expires = n.now + $2, lease = $2, is_starting = $3 "
                   "from n, nodes b where o.session = $1 and b.session = $1 "
                   "returning o.session, case when o.beat = 2 then $3 else b.is_starting and not $3 end as is_news) "
                   "select n.now, w.session, case when w.is_news then "
                   "pg_notify(current_schema()::text, 'changed: ' || w.session) end from n left join w on true",
                   on(link_role::clock)},
    statement_text{
        statement::nodes, "nodes",
        "select o.session, o.beat, o.expires, o.lease, o.is_starting and o.beat > 1, "  // the first renewal tells
        "(select count(*) from parts p where p.session = "
        "o.session) from nodes o order by o.session",
        on(link_role::clock)},
    statement_text{statement::partitions, "partitions",
                   "select part, session is not null from parts where session = $1 or session is null order by part",
                   on(link_role::clock)},
    // in the order of the index, which is then read no further than the limit
    statement_text{
        statement::count_dead, "count_dead",
        "select count(*) from (select from tasks where at = 9223372036854775807 and state = 2 order by id limit "
        "$1) as dead",
        on(link_role::clock)},
    statement_text{statement::beat, "beat", "update nodes set beat = beat + 1 where session = $1",
                   on(link_role::clock)},
    statement_text{statement::ask_node, "ask_node", "select pg_notify(current_schema()::text, $1::text)",
                   on(link_role::clock)},
    statement_text{statement::end_links, "end_links",
                   "select coalesce(end_backends(array_agg(l.pid), array_agg(l.started), array_agg(l.role), true), 0) "
                   "from links l "
                   "join nodes o on o.session = l.session where l.session = $1 and $2::bigint in (o.beat, 0)",
                   on(link_role::clock)},
    statement_text{
        statement::bury, "bury",
        TICKWHEEL_NOW
        "o as materialized (select session, $2::bigint in (beat, 0) as is_meant from nodes where session = $1), "
        "f as materialized (select session from nodes where session = $1 and $2 in (beat, 0) for update skip "
        "locked), d as (delete from nodes where session in (select session from f) returning session) "
        "select n.now, exists (select from d) or not exists (select from o), "
        "not exists (select from d) and exists (select from o where is_meant) from n",
        on(link_role::clock)},
    statement_text{
        statement::free_partitions, "free_partitions",
        "with freed as (update parts set session = null where session = $1 and not exists (select from nodes where "
        "session = $1) returning part) "
        "select pg_notify(current_schema()::text, 'released to 0') where exists (select from freed)",
        on(link_role::clock)},
    statement_text{statement::forget_links, "forget_links",
                   "delete from links l where not exists (select from nodes o where o.session = l.session)",
                   on(link_role::clock)},
    statement_text{
        statement::acquire, "acquire",
        TICKWHEEL_NOW TICKWHEEL_ME
        "w as (update parts set session = $1 where part = any(array(select part from parts where session is null and "
        "exists (select from me) order by part limit $2 for update skip locked)) returning part) "
        "select n.now, w.part from n left join w on true order by w.part",
        on(link_role::clock)},
    statement_text{statement::load, "load", load_sql, on(link_role::clock)},
    statement_text{statement::give_back, "give_back", give_back_sql, on(link_role::clock)},
    statement_text{statement::find_lost, "find_lost", find_lost_sql, on(link_role::clock)},
    statement_text{statement::recover, "recover", recover_sql, on(link_role::clock)},
};

}  // namespace

const char* to_string(link_role role) noexcept {
  constexpr std::array names{"starts", "requests", "clock"};
  return names[static_cast<std::size_t>(role)];
}

std::span<const statement_text> all_statements() noexcept { return texts; }

const char* name_of(statement what) noexcept { return texts[static_cast<std::size_t>(what)].name; }

}  // namespace tickwheel::durable::postgres
