#include "starts.hpp"

#include "../../batch_limits.hpp"

#include <algorithm>

namespace tickwheel::durable::sqlite {

namespace {

// a task that has cost so many nodes is dead
constexpr std::int64_t most_lost = 3;

using detail::limits;

constexpr int lost_id_column = 12;

}  // namespace

starts::starts(const connection& file)
    : rows_{file},
      begin_{
          file.get(),
          "update tasks set state = 1, rev = ?3, attempt = attempt + 1 where id = ?1 and rev = ?2 and state = 0 and at "
          "<= ?4 returning attempt, lost, due, period, payload"},
      lost_{file.get(),
            "select " TICKWHEEL_SQLITE_ROW
            ", id from tasks where state <> 0 and state = 1 and id > ?1 and rev < ?2 order by id limit ?3"} {}

void starts::begin(transaction& in, begin_call& call) {
  call.starts.clear();
  call.starts.reserve(call.items.size());
  in.counter().prepare(call.items.size());
  for (std::size_t i = 0; i < call.items.size(); ++i) {
    const auto& item = call.items[i];
    begin_call::started start;
    bool is_started = false;
    const bool is_accepted = in.element(call, i, [&] {
      const revision token = in.counter().next();
      query q{begin_};
      q.bind_text(item.id)
          .bind(static_cast<std::int64_t>(item.rev))
          .bind(static_cast<std::int64_t>(token))
          .bind(in.now());
      is_started = q.next();
      if (!is_started) return;
      start = {.index = i,
               .token = token,
               .attempt = static_cast<unsigned>(q.integer(0)),
               .lost = static_cast<unsigned>(q.integer(1)),
               .due = from_database(q.integer(2)),
               .period = std::chrono::nanoseconds{q.integer(3)},
               .payload = std::string{q.bytes(4)}};
      q.run();
    });
    if (is_accepted && is_started) call.starts.push_back(std::move(start));
  }
}

void starts::finish(transaction& in, finish_call& call) {
  call.results.assign(call.items.size(), finish_result::unknown);  // so of one that the file's trigger rejects
  call.pending.clear();
  in.counter().prepare(call.items.size());
  for (std::size_t i = 0; i < call.items.size(); ++i)
    in.element(call, i, [&] { call.results[i] = finish_one(in, call, call.items[i]); });
}

finish_result starts::finish_one(transaction& in, finish_call& call, const finish_call::item& item) {
  const auto found = rows_.find(item.id);
  if (!found || found->is_forgotten(in.forgotten())) return finish_result::stale;
  if (found->ended == item.token && item.token != 0) return finish_result::finished;
  if (found->state != task_state::running || found->rev != item.token) return finish_result::stale;

  task_row row = *found;
  row.ended = item.token;
  row.rev = in.counter().next();
  if (item.how == outcome::again && item.gives_attempt_back) row.attempt = std::max<std::int64_t>(row.attempt - 1, 0);
  const bool is_over = item.how == outcome::done && row.period == 0;
  if (is_over || row.stop) {
    const std::string_view error = item.how == outcome::done ? std::string_view{} : item.error;
    rows_.end(row, is_over ? task_state::finished : task_state::cancelled, in.now(), error);
    return finish_result::finished;
  }
  if (item.how == outcome::done) {
    next_period(in, row);
  } else {
    const bool is_again = item.how == outcome::again;
    row.state = is_again ? task_state::pending : task_state::dead;
    row.at = is_again ? std::min(to_database(item.at), never - 1) : never;
    if (item.error.empty())
      rows_.write(row);
    else
      rows_.write(row, item.error);
  }
  if (row.state == task_state::pending)
    call.pending.push_back({.id = item.id,
                            .rev = row.rev,
                            .at = from_database(row.at),
                            .bytes = row.bytes,
                            .lost = static_cast<std::uint16_t>(row.lost)});
  return finish_result::finished;
}

void starts::next_period(transaction& in, task_row& row) {
  const nanoseconds next = sqlite::next_period(row.due, row.period, in.now());
  if (next == never) {
    row.state = task_state::finished;
    return rows_.end(row, row.state, in.now());
  }
  row.state = task_state::pending;
  row.due = row.at = next;
  row.attempt = row.lost = 0;
  rows_.write(row, {});
}

void starts::recover(transaction& in, recover_call& call, revision first) {
  std::vector<task_row> page;
  std::string after;
  for (bool is_last = false; !is_last;) {
    page.clear();
    {
      query q{lost_};
      q.bind_text(after).bind(static_cast<std::int64_t>(first)).bind(static_cast<std::int64_t>(limits.recovered));
      std::string last;
      while (q.next()) {
        page.push_back(read_row(q));
        last = q.bytes(lost_id_column);
      }
      after = std::move(last);
    }
    is_last = page.size() < limits.recovered;
    in.counter().prepare(page.size());
    for (const task_row& row : page) {
      const std::size_t index = call.doubted.size() + static_cast<std::size_t>(row.rowid);
      in.element(call, index, [&] { recover_one(in, call, row); });
    }
  }
}

void starts::give_back(transaction& in, recover_call& call, revision first) {
  in.counter().prepare(call.doubted.size());
  for (std::size_t i = 0; i < call.doubted.size(); ++i) {
    const bool is_accepted = in.element(call, i, [&] {
      auto row = rows_.find(call.doubted[i]);
      if (!row || row->state != task_state::running || row->rev < first) return;
      row->rev = in.counter().next();
      row->attempt = std::max<std::int64_t>(row->attempt - 1, 0);
      if (row->stop) return rows_.end(*row, task_state::cancelled, in.now());
      row->state = task_state::pending;
      rows_.write(*row);
    });
    if (!is_accepted) call.doubted[i].clear();
  }
}

void starts::recover_one(transaction& in, recover_call& call, task_row row) {
  row.rev = in.counter().next();
  ++row.lost;
  if (row.stop) return rows_.end(row, task_state::cancelled, in.now());
  const bool has_attempt = row.attempt < static_cast<std::int64_t>(call.max_attempts);
  if (row.lost < most_lost && !has_attempt && row.period != 0) {
    next_period(in, row);
    if (row.state == task_state::pending) ++call.recovered;
    return;
  }
  const bool is_dead = row.lost >= most_lost || !has_attempt;
  row.state = is_dead ? task_state::dead : task_state::pending;
  if (is_dead) row.at = never;
  rows_.write(row);
  ++(is_dead ? call.died : call.recovered);
}

}  // namespace tickwheel::durable::sqlite
