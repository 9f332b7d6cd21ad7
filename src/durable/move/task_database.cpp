#include "task_database.hpp"

#include <uv.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace tickwheel::durable::move {

using postgres::failure;
using postgres::result;

namespace {

// rows are sent in pieces of this size
constexpr std::size_t piece_bytes = 1 << 18;

void append_escaped(std::string& line, std::string_view text) {
  for (const char c : text) {
    if (c == '\\') line += '\\';
    line += c;
  }
}

void append_hex(std::string& line, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  line += "\\\\x";
  for (const char c : bytes) {
    line += digits[static_cast<unsigned char>(c) >> 4U];
    line += digits[static_cast<unsigned char>(c) & 0xfU];
  }
}

// A line of COPY: id, state, at, due, period, rev, ended, attempt, lost, stop, gone, payload, error. A task that has ended keeps no
// payload. The file has the largest `at` for it; the database has it for the dead only.
void append_line(std::string& lines, const file_row& row) {
  const bool has_ended = row.gone.has_value();
  append_escaped(lines, row.id);
  for (const std::int64_t value :
       {row.state, has_ended ? row.due : row.at, row.due, row.period, row.rev, row.ended, row.attempt, row.lost})
    lines.append("\t").append(std::to_string(value));
  lines += row.stop ? "\tt\t" : "\tf\t";
  lines += has_ended ? std::to_string(*row.gone) : "\\N";
  lines += '\t';
  if (has_ended)
    lines += "\\N";
  else
    append_hex(lines, row.payload);
  lines += '\t';
  // an error may have any character
  if (!row.error) lines += "\\N";
  for (const char c : row.error.value_or(std::string_view{})) {
    constexpr std::array<std::pair<char, char>, 4> escapes{{{'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
    char written = c;
    for (const auto& [special, letter] : escapes)
      if (c == special) {
        lines += '\\';
        written = letter;
      }
    lines += written;
  }
  lines += '\n';
}

std::int64_t integer(const PGresult* of, int row, int column) noexcept {
  return std::strtoll(PQgetvalue(of, row, column), nullptr, 10);
}

}  // namespace

task_database::task_database(const std::string& conninfo, const std::string& schema) {
  options_.schema = schema;
  if (const char* const problem = options_.problem()) throw failure::final(UV_EINVAL, problem);
  const std::array<const char*, 5> keywords{"target_session_attrs", "client_encoding", "fallback_application_name",
                                            "dbname", nullptr};
  const std::array<const char*, 5> values{"read-write", "UTF8", "tickwheel-durable-move", conninfo.c_str(), nullptr};
  connection_.reset(PQconnectdbParams(keywords.data(), values.data(), 1));
  if (PQstatus(connection_.get()) != CONNECTION_OK) throw failure::of(*connection_);
  PQsetNoticeReceiver(
      connection_.get(),
      [](void* self, const PGresult* notice) {
        if (postgres::tells_of_lone_commit(*notice))
          static_cast<task_database*>(self)->lone_commit_ = failure::of(*notice);
      },
      this);
  if (PQserverVersion(connection_.get()) < postgres::oldest_server)
    throw failure::final(UV_ENOTSUP, "the server is older than PostgreSQL 14");
  const auto encoding = run("select current_setting('server_encoding')");
  if (const std::string problem = postgres::problem_of_encoding(PQgetvalue(encoding.get(), 0, 0)); !problem.empty())
    throw failure::final(UV_ENOTSUP, problem);
  (void)run("set client_min_messages = warning");  // the least that tells of a lone commit
  // The default of the role may not wait for the standby.
  (void)run(
      "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') <> "
      "'remote_apply'");
  make_schema();
}

result task_database::run(const std::string& sql) const {
  result r{PQexec(connection_.get(), sql.c_str())};
  const ExecStatusType status = PQresultStatus(r.get());
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN) return r;
  if (r == nullptr || PQstatus(connection_.get()) != CONNECTION_OK) throw failure::of(*connection_);
  throw failure::of(*r);
}

void task_database::make_schema() const {
  const auto is_there = [&](int column) {
    return PQgetvalue(run(postgres::look_script(options_)).get(), 0, column) == std::string_view{"t"};
  };
  if (!is_there(1)) (void)run(postgres::make_script(options_, is_there(0), 0));
  const auto meta = run(postgres::meta_script(options_));
  if (PQntuples(meta.get()) != 1 || integer(meta.get(), 0, 0) != postgres::schema_version)
    throw failure::final(UV_ENOTSUP,
                         std::string{"schema "} + options_.schema + " has another version than this program");
}

void task_database::write(const task_file& from) {
  (void)run("begin; set local search_path = " + postgres::quoted_name(options_.schema) +
            ", pg_temp; set local statement_timeout = 0; set local lock_timeout = 0");
  copy(from);
  refuse_known_ids();
  // Tokens go on growing. Another connection may take numbers meanwhile, so the counter stays a second of them away.
  const std::string last = std::to_string(from.last_revision());
  (void)run("select pg_advisory_xact_lock('revisions'::regclass::oid::bigint)");
  (void)run("select setval('revisions', " + last + " + 1000000) where (select last_value from revisions) <= " + last);
  // The session of a running task is none that a node has: the tasks are recovered as those of a lost node.
  (void)run(
      "with lost as materialized (select nextval('revisions') as session) "
      "insert into tasks(id, part, state, at, due, period, rev, ended, session, attempt, lost, stop, gone, payload, "
      "error) "
      "select id, partition_of(id), state, at, due, period, rev, ended, "
      "case when state = 1 then (select session from lost) end, attempt, lost, stop, gone, payload, error from moved");
}

void task_database::copy(const task_file& from) const {
  (void)run(
      "create temp table moved on commit drop as select id, state, at, due, period, rev, ended, attempt, lost, stop, "
      "gone, payload, error from tasks with no data");
  (void)run("copy moved from stdin");
  std::string lines;
  from.for_each([&](const file_row& row) {
    append_line(lines, row);
    if (lines.size() < piece_bytes) return;
    send(lines);
    lines.clear();
  });
  send(lines);
  if (PQputCopyEnd(connection_.get(), nullptr) != 1) throw failure::of(*connection_);
  for (result r{PQgetResult(connection_.get())}; r != nullptr; r.reset(PQgetResult(connection_.get())))
    if (PQresultStatus(r.get()) != PGRES_COMMAND_OK) throw failure::of(*r);
  (void)run("analyze moved");
}

void task_database::send(const std::string& lines) const {
  if (!lines.empty() && PQputCopyData(connection_.get(), lines.data(), static_cast<int>(lines.size())) != 1)
    throw failure::of(*connection_);
}

void task_database::refuse_known_ids() {
  const auto known =
      run("select count(*), min(t.id), (select count(*) from moved) from tasks t join moved m on m.id = t.id");
  const auto known_ids = integer(known.get(), 0, 0);
  if (known_ids == 0) return;
  if (known_ids == integer(known.get(), 0, 2) && sum_of(count()) == known_ids) refuse_moved(known_ids);
  throw failure::final(UV_EEXIST, "the database has " + std::to_string(known_ids) +
                                      " of the ids already, for instance " + PQgetvalue(known.get(), 0, 1));
}

// An earlier run may have ended while its commit waited for the synchronous standby. A commit that waits has it there, too.
void task_database::refuse_moved(std::int64_t tasks) {
  try {
    (void)run("rollback");
    (void)run("begin");
    (void)run("select pg_logical_emit_message(true, 'tickwheel', '')");
    commit();
  } catch (const failure& f) {
    throw unconfirmed{f};
  }
  throw failure::final(UV_EEXIST, "the database has all " + std::to_string(tasks) +
                                      " tasks of the file, as after a run that ended before it renamed the file");
}

state_counts task_database::count() const {
  const auto equal =
      run("select t.state, count(*) from tasks t join moved m on m.id = t.id "
          "where (t.state, t.at, t.due, t.period, t.rev, t.ended, t.attempt, t.lost, t.stop) = "
          "(m.state, m.at, m.due, m.period, m.rev, m.ended, m.attempt, m.lost, m.stop) "
          "and t.gone is not distinct from m.gone and t.payload is not distinct from m.payload "
          "and t.error is not distinct from m.error group by t.state");
  state_counts counts{};
  for (int row = 0; row != PQntuples(equal.get()); ++row)
    counts.at(static_cast<std::size_t>(integer(equal.get(), row, 0))) = integer(equal.get(), row, 1);
  return counts;
}

void task_database::commit() {
  lone_commit_ = {};  // a commit that waits has those before it on the standby
  const auto r = run("commit");
  if (PQcmdStatus(r.get()) != std::string_view{"COMMIT"}) throw failure{{}, "the server rolled the transaction back"};
  if (lone_commit_.is_set()) throw failure{lone_commit_.sqlstate(), lone_commit_.text()};
}

}  // namespace tickwheel::durable::move
