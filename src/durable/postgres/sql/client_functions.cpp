#include "client_functions.hpp"

namespace tickwheel::durable::postgres {

// A caller may have any search path, so each function sets its own. A parameter is named with its function, because its name
// without that is the column's. Bad input raises 22023, invalid_parameter_value. An update of a row that is locked finds none only if a
// trigger has dropped it: that is refused.
const char* const client_functions = R"(
create function check_id(what text, id text) returns void language plpgsql immutable as $$
begin
  if id is null then
    raise exception '%: id is null', what using errcode = '22023';
  elsif octet_length(id) not between 1 and 255 then
    raise exception '%: id has % bytes; it must have 1 to 255', what, octet_length(id) using errcode = '22023';
  elsif id ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '%: id has a control character', what using errcode = '22023';
  end if;
end $$;

create function tickwheel_schedule(id text, due timestamptz, payload bytea, period interval default null,
  wake boolean default false) returns text
language plpgsql volatile set search_path = SCHEMA, pg_temp as $$
#variable_conflict use_column
declare
  due_ns bigint;
  period_us numeric := 0;
  now bigint;
  known smallint;
begin
  perform check_id('tickwheel_schedule', tickwheel_schedule.id);
  if tickwheel_schedule.due is null or tickwheel_schedule.due <= '1970-01-01 00:00:00+00'::timestamptz
    or tickwheel_schedule.due >= '2200-01-01 00:00:00+00'::timestamptz then
    raise exception 'tickwheel_schedule: due is %; it must be after 1970-01-01 and before 2200-01-01',
      coalesce(tickwheel_schedule.due::text, 'null') using errcode = '22023';
  end if;
  if tickwheel_schedule.payload is null then
    raise exception 'tickwheel_schedule: payload is null' using errcode = '22023';
  elsif length(tickwheel_schedule.payload) > 65536 then
    raise exception 'tickwheel_schedule: payload has % bytes; it must have at most 65536',
      length(tickwheel_schedule.payload) using errcode = '22023';
  end if;
  if tickwheel_schedule.period is not null then
    if extract(year from tickwheel_schedule.period) <> 0 or extract(month from tickwheel_schedule.period) <> 0 then
      raise exception 'tickwheel_schedule: period is %; months and years have no fixed length', tickwheel_schedule.period
        using errcode = '22023';
    end if;
    period_us := extract(epoch from tickwheel_schedule.period) * 1000000;
    if period_us <> 0 and (period_us < 1000 or period_us > 9223372036854775) then
      raise exception 'tickwheel_schedule: period is %; it must be 0, or at least 1 ms and at most 292 years',
        tickwheel_schedule.period using errcode = '22023';
    end if;
  end if;
  due_ns := (extract(epoch from tickwheel_schedule.due) * 1000000)::bigint * 1000;
  -- A row is first looked for, because the insert of a known id would lock its row, and then no node starts the task until this
  -- transaction has ended. But with an old snapshot it may have changed since, and only the insert notices. A row that is neither found
  -- nor written may have just been forgotten. The third time a trigger has dropped it, as in `put`.
  for look in 1..4 loop
    now := now_ns();
    if look > 1 or current_setting('transaction_isolation') = 'read committed' then
      select t.state into known from tasks t
      where t.id = tickwheel_schedule.id and (t.gone is null or t.gone > forgotten(now));
      if found then
        return case when known < 2 then 'exists' else 'ended' end;
      end if;
    end if;
    exit when look = 4;
    insert into tasks as t(id, part, at, due, period, rev, payload)
    values (tickwheel_schedule.id, partition_of(tickwheel_schedule.id), due_ns, due_ns, period_us::bigint * 1000,
      nextval('revisions'), tickwheel_schedule.payload)
    on conflict (id) do update set state = 0, part = excluded.part, at = excluded.at, due = excluded.due,
      period = excluded.period, rev = excluded.rev, ended = 0, session = null, attempt = 0, lost = 0, stop = false,
      gone = null, payload = excluded.payload, error = null
    where t.gone <= forgotten(now);
    if found then
      if tickwheel_schedule.wake then
        perform pg_notify(current_schema()::text, 'scheduled in ' || partition_of(tickwheel_schedule.id));
      end if;
      return 'scheduled';
    end if;
  end loop;
  return 'refused';
end $$;

create function tickwheel_cancel(id text) returns text
language plpgsql volatile set search_path = SCHEMA, pg_temp as $$
#variable_conflict use_column
declare
  now bigint := now_ns();
  known smallint;
  stops boolean;
begin
  perform check_id('tickwheel_cancel', tickwheel_cancel.id);
  select t.state, t.stop into known, stops from tasks t
  where t.id = tickwheel_cancel.id and (t.gone is null or t.gone > forgotten(now)) for update;
  now := now_ns();  -- the row may have been locked for long
  if not found then
    return 'not_found';
  elsif known = 1 and stops then
    return 'running';
  elsif known = 3 then
    return 'finished';
  elsif known = 4 then
    return 'cancelled';
  elsif known = 1 then
    update tasks t set stop = true where t.id = tickwheel_cancel.id;
  else
    update tasks t set state = 4, rev = nextval('revisions'), gone = now, payload = null,
      at = case when known = 2 then t.due else t.at end
    where t.id = tickwheel_cancel.id;
  end if;
  if not found then
    return 'refused';
  end if;
  return case when known = 1 then 'running' else 'cancelled' end;
end $$;

create function tickwheel_done(id text, token bigint) returns text
language plpgsql volatile set search_path = SCHEMA, pg_temp as $$
#variable_conflict use_column
declare
  now bigint := now_ns();
  known tasks%rowtype;
  next bigint;
begin
  perform check_id('tickwheel_done', tickwheel_done.id);
  if tickwheel_done.token is null then
    raise exception 'tickwheel_done: token is null' using errcode = '22023';
  end if;
  select t.* into known from tasks t
  where t.id = tickwheel_done.id and (t.gone is null or t.gone > forgotten(now)) for update;
  now := now_ns();  -- the row may have been locked for long
  if not found or tickwheel_done.token = 0 then
    return 'stale';
  elsif known.ended = tickwheel_done.token then
    return 'finished';
  elsif known.state <> 1 or known.rev <> tickwheel_done.token then
    return 'stale';
  end if;
  next := next_period(known.due, known.period, now);
  if known.period = 0 or known.stop or next is null then
    update tasks t set state = case when known.period <> 0 and known.stop then 4 else 3 end, rev = nextval('revisions'),
      ended = tickwheel_done.token, session = null, stop = false, gone = now, payload = null
    where t.id = tickwheel_done.id;
  else
    update tasks t set state = 0, rev = nextval('revisions'), ended = tickwheel_done.token, session = null, at = next,
      due = next, attempt = 0, lost = 0, error = null
    where t.id = tickwheel_done.id;
  end if;
  return case when found then 'finished' else 'refused' end;
end $$;
)";

}  // namespace tickwheel::durable::postgres
