// The subject sqlite_store: a file of tasks, and a second one for its ceiling.
#pragma once

#include "raw_sqlite.hpp"
#include "store_subject.hpp"

#include <tickwheel/durable/sqlite.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace tickwheel::bench {

class sqlite_files final : public store_subject {
 public:
  explicit sqlite_files(std::string folder) : folder_{std::move(folder)} { remove(); }
  ~sqlite_files() override { remove(); }
  sqlite_files(const sqlite_files&) = delete;
  sqlite_files& operator=(const sqlite_files&) = delete;

  std::unique_ptr<durable::store> make_store() const override { return durable::sqlite_store(path("")); }
  std::unique_ptr<raw_store> make_raw(std::size_t pending) const override {
    return std::make_unique<raw_sqlite>(path("_raw"), pending);
  }

 private:
  std::string path(const char* which) const { return folder_ + "/durable_bench" + which + ".db"; }
  void remove() const {
    for (const char* which : {"", "_raw"})
      for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::remove((path(which) + suffix).c_str());
  }

  std::string folder_;
};

}  // namespace tickwheel::bench
