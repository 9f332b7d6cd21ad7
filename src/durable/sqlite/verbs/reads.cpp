#include "reads.hpp"

#include "task_infos.hpp"

#include <algorithm>
#include <limits>

namespace tickwheel::durable::sqlite {

namespace {

std::int64_t limit_of(std::size_t rows) noexcept {
  return static_cast<std::int64_t>(std::min<std::size_t>(rows, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

reads::reads(const connection& file)
    : file_{file},
      load_{file.get(),
            "select id, rev, at, length(payload), lost from tasks where state = 0 and (at, id) > (?1, ?2) and at <= ?3 "
            "order by at, id limit ?4"},
      pending_{file.get(),
               "select " TICKWHEEL_SQLITE_INFO " from tasks where state = 0 and id > ?1 order by id limit ?2"},
      others_{file.get(), "select " TICKWHEEL_SQLITE_INFO
                          " from tasks where state <> 0 and state = ?1 and id > ?2 and (gone is null or gone > ?3) "
                          "order by id limit ?4"} {}

void reads::load(load_call& call, nanoseconds now) {
  call.rows.clear();
  const nanoseconds until = add(now, std::max<nanoseconds>(call.window.count(), 0));
  for (const load_range& range : call.ranges) {
    if (range.partition != 0) continue;
    query q{load_};
    q.bind(to_database(range.at)).bind_text(range.id).bind(until).bind(limit_of(call.page));
    while (q.next())
      call.rows.push_back({.id = std::string{q.bytes(0)},
                           .rev = static_cast<revision>(q.integer(1)),
                           .at = from_database(q.integer(2)),
                           .bytes = static_cast<std::uint32_t>(q.integer(3)),
                           .lost = static_cast<std::uint16_t>(q.integer(4))});
  }
}

void reads::begin_list() {
  file_.run("begin");
  file_.integer("select one from meta");  // the first read fixes what the transaction sees
}

void reads::list(list_call& call, nanoseconds forgotten) {
  call.results.clear();
  const bool is_pending = call.state == task_state::pending;
  query q{is_pending ? pending_ : others_};
  if (!is_pending) q.bind(static_cast<std::int64_t>(call.state));
  q.bind_text(call.after);
  if (!is_pending) q.bind(forgotten);
  q.bind(limit_of(call.limit));
  while (q.next()) call.results.push_back(read_info(q));
}

void reads::end_list() noexcept { file_.rollback(); }

}  // namespace tickwheel::durable::sqlite
