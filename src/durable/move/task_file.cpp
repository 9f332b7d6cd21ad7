#include "task_file.hpp"

#include "../sqlite/file/schema.hpp"
#include "../sqlite/file/statement.hpp"

#include <uv.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace tickwheel::durable::move {

using sqlite::query;
using sqlite::statement;

namespace {

constexpr std::size_t cache_bytes = 8 << 20;

// Without this a power failure could undo a renaming. On a file system that cannot write a folder by itself there is nothing to do.
void write_folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path{file}.parent_path().string();
  uv_fs_t request;
  const uv_file opened =
      uv_fs_open(nullptr, &request, folder.empty() ? "." : folder.c_str(), UV_FS_O_RDONLY, 0, nullptr);
  uv_fs_req_cleanup(&request);
  if (opened < 0) return;
  static_cast<void>(uv_fs_fsync(nullptr, &request, opened, nullptr));
  uv_fs_req_cleanup(&request);
  static_cast<void>(uv_fs_close(nullptr, &request, opened, nullptr));
  uv_fs_req_cleanup(&request);
}

std::string existing(const std::string& path) {
  std::string file = sqlite::resolved(path);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw sqlite::failure::final(UV_ENOENT, "there is no such file");
  return file;
}

void refuse_existing(const std::string& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) throw sqlite::failure::final(UV_EEXIST, "there is a file " + file);
}

// SQLite reads some damaged files without an error, and leaves rows out.
void refuse_damage(const sqlite::connection& file) {
  statement check{file.get(), "pragma integrity_check(1)"};
  query q{check};
  std::string said{q.next() ? q.bytes(0) : std::string_view{}};
  if (said == "ok") return;
  std::replace(said.begin(), said.end(), '\n', ' ');
  throw sqlite::failure::final(UV_EFTYPE, "it is damaged; SQLite's integrity_check says: " + said);
}

}  // namespace

task_file::task_file(const std::string& path)
    : path_{existing(path)},
      retired_{path_ + ".moved"},
      lock_{path_},
      file_{std::make_unique<sqlite::connection>(path_, sqlite::access::existing, cache_bytes, give_up_)} {
  refuse_existing(retired_);  // after the commit of the copy it would be too late
  sqlite::prepare_file(*file_);
  file_->run(
      "pragma journal_mode = delete");  // one file without its log: it is renamed at once after the commit of the copy
  file_->run("begin immediate");
  refuse_damage(*file_);
}

state_counts task_file::count() const {
  state_counts counts{};
  statement by_state{file_->get(), "select state, count(*) from tasks group by state"};
  for (query q{by_state}; q.next();) {
    const auto state = static_cast<std::size_t>(q.integer(0));
    if (state >= counts.size()) throw sqlite::failure{SQLITE_CORRUPT, 0, "a row has an unknown state"};
    counts[state] = q.integer(1);
  }
  return counts;
}

std::int64_t task_file::last_revision() const {
  return file_->integer("select max(revision, (select coalesce(max(max(rev, ended)), 0) from tasks)) from meta");
}

void task_file::for_each(const std::function<void(const file_row&)>& each) const {
  statement all{file_->get(),
                "select id, state, at, due, period, rev, ended, attempt, lost, stop, gone, error, payload from tasks"};
  for (query q{all}; q.next();) {
    file_row row{.id = q.bytes(0),
                 .state = q.integer(1),
                 .at = q.integer(2),
                 .due = q.integer(3),
                 .period = q.integer(4),
                 .rev = q.integer(5),
                 .ended = q.integer(6),
                 .attempt = q.integer(7),
                 .lost = q.integer(8),
                 .stop = q.integer(9) != 0,
                 .payload = q.bytes(12)};
    if (!q.is_null(10)) row.gone = q.integer(10);
    if (!q.is_null(11)) row.error = q.bytes(11);
    each(row);
  }
}

std::string task_file::retire() {
  file_->rollback();
  file_.reset();
  refuse_existing(retired_);
  std::error_code error;
  std::filesystem::rename(path_, retired_, error);
  if (error) throw sqlite::failure::final(UV_EIO, "cannot rename it to " + retired_ + ": " + error.message());
  write_folder_of(retired_);
  return retired_;
}

}  // namespace tickwheel::durable::move
