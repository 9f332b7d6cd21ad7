#include "requests.hpp"

#include "task_infos.hpp"

#include <algorithm>

namespace tickwheel::durable::sqlite {

requests::requests(const connection& file)
    : rows_{file},
      insert_{file.get(),
              "insert into tasks(id, at, due, period, rev, payload) values(?1, ?2, ?2, ?3, ?4, ?5) on conflict(id) do "
              "nothing"},
      replace_{
          file.get(),
          "update tasks set state = 0, at = ?2, due = ?2, period = ?3, rev = ?4, ended = ?5, attempt = 0, lost = 0, "
          "stop = 0, gone = null, error = null, payload = ?6 where rowid = ?1"},
      get_{file.get(), "select " TICKWHEEL_SQLITE_INFO " from tasks where id = ?1 and (gone is null or gone > ?2)"},
      purge_{file.get(),
             "delete from tasks where rowid in (select rowid from tasks where gone is not null and gone <= ?1 order by "
             "gone limit ?2)"},
      dead_{file.get(), "select count(*) from (select 1 from tasks where state <> 0 and state = 2 limit ?1)"} {}

std::size_t requests::put(transaction& in, put_call& call, std::size_t first) {
  if (first == 0) call.results.assign(call.items.size(), {});
  in.counter().prepare(call.items.size() - first);
  return in.elements(first, call.items.size(), [&](std::size_t i) {
    if (!in.element(call, i, [&] { call.results[i] = put_one(in, call.items[i]); }))
      call.results[i] = {.result = schedule_result::refused};
  });
}

put_call::answered requests::put_one(transaction& in, const put_call::item& item) {
  const revision rev = in.counter().next();
  const auto inserted = query{insert_}
                            .bind_text(item.what.id)
                            .bind(to_database(item.what.due))
                            .bind(item.what.period.count())
                            .bind(static_cast<std::int64_t>(rev))
                            .bind_payload(item.what.payload)
                            .changes();
  if (inserted != 0) return {.result = schedule_result::scheduled, .rev = rev};
  return put_known(item, rev, in.forgotten());
}

put_call::answered requests::put_known(const put_call::item& item, revision rev, nanoseconds forgotten) {
  const auto row = rows_.find(item.what.id);
  if (!row) return {.result = schedule_result::refused};  // a trigger ignores the insert
  const bool is_forgotten = row->is_forgotten(forgotten);
  if (!is_forgotten) {
    const bool is_alive = row->state == task_state::pending || row->state == task_state::running;
    if (item.conflict == on_conflict::keep)
      return {.result = is_alive ? schedule_result::exists : schedule_result::ended};
    if (row->state == task_state::running) return {.result = schedule_result::running};
  }
  const auto replaced = query{replace_}
                            .bind(row->rowid)
                            .bind(to_database(item.what.due))
                            .bind(item.what.period.count())
                            .bind(static_cast<std::int64_t>(rev))
                            .bind(is_forgotten ? 0 : static_cast<std::int64_t>(row->ended))
                            .bind_payload(item.what.payload)
                            .changes();
  if (replaced == 0) return {.result = schedule_result::refused};
  return {.result = is_forgotten ? schedule_result::scheduled : schedule_result::replaced, .rev = rev};
}

std::size_t requests::cancel(transaction& in, cancel_call& call, std::size_t first) {
  if (first == 0) call.results.assign(call.ids.size(), {});
  in.counter().prepare(call.ids.size() - first);
  return in.elements(first, call.ids.size(), [&](std::size_t i) {
    if (!in.element(call, i, [&] { call.results[i] = cancel_one(in, call.ids[i]); }))
      call.results[i] = cancel_result::unavailable;
  });
}

cancel_result requests::cancel_one(transaction& in, std::string_view id) {
  auto row = rows_.find(id);
  if (!row || row->is_forgotten(in.forgotten())) return cancel_result::not_found;
  switch (row->state) {
    case task_state::pending:
    case task_state::dead:
      row->rev = in.counter().next();
      rows_.end(*row, task_state::cancelled, in.now());
      return cancel_result::cancelled;
    case task_state::running:
      if (!row->stop) {
        row->stop = true;  // its revision is its token, and stays
        rows_.write(*row);
      }
      return cancel_result::running;
    case task_state::finished:
      return cancel_result::finished;
    case task_state::cancelled:
      return cancel_result::cancelled;
  }
  throw failure{SQLITE_CORRUPT, 0, "a row has an unknown state"};
}

std::size_t requests::revive(transaction& in, revive_call& call, std::size_t first) {
  if (first == 0) call.results.assign(call.ids.size(), {});
  in.counter().prepare(call.ids.size() - first);
  return in.elements(first, call.ids.size(), [&](std::size_t i) {
    if (!in.element(call, i, [&] { call.results[i] = revive_one(in, call.ids[i]); }))
      call.results[i] = {.result = revive_result::unavailable};
  });
}

revive_call::answered requests::revive_one(transaction& in, std::string_view id) {
  auto row = rows_.find(id);
  if (!row || row->is_forgotten(in.forgotten())) return {.result = revive_result::not_found};
  if (row->state != task_state::dead) return {.result = revive_result::not_dead};
  row->state = task_state::pending;
  row->at = in.now();
  row->rev = in.counter().next();
  row->attempt = row->lost = 0;
  rows_.write(*row, {});
  return {.result = revive_result::revived, .rev = row->rev};
}

std::size_t requests::get(transaction& in, get_call& call, std::size_t first) {
  if (first == 0) call.results.assign(call.ids.size(), std::nullopt);
  return in.elements(first, call.ids.size(), [&](std::size_t i) {
    query q{get_};
    q.bind_text(call.ids[i]).bind(in.forgotten());
    if (q.next()) call.results[i] = read_info(q);
  });
}

// `first` rows are deleted already.
std::size_t requests::purge(transaction& in, purge_call& call, std::size_t first) {
  call.purged = first;
  while (call.purged < call.limit && !in.gives_way()) {
    const std::size_t step = std::min(detail::limits.purge_step, call.limit - call.purged);
    std::size_t deleted = 0;
    in.element(call, 0, [&] {
      query q{purge_};
      deleted = static_cast<std::size_t>(q.bind(in.forgotten()).bind(static_cast<std::int64_t>(step)).changes());
    });
    call.purged += deleted;
    if (deleted < step) return call.limit;
  }
  return call.purged;
}

std::uint64_t requests::count_dead() {
  query q{dead_};
  q.bind(static_cast<std::int64_t>(most_dead_counted));
  return q.next() ? static_cast<std::uint64_t>(q.integer(0)) : 0;
}

}  // namespace tickwheel::durable::sqlite
