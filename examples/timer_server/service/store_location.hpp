// The place of the timers: "sqlite:timers.db" or "postgresql://host/database".
#pragma once

#include <tickwheel/durable/store.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace timer_server {

struct store_location {
  std::string url = "sqlite:timers.db";
  std::string schema = "tickwheel";  // of PostgreSQL
};

/// Returns the store, or null if `url` names none that this program has; `why` then says which option is wrong, and why. `log` gets the
/// lines of PostgreSQL's store, on the loop. Of a file nothing is told: a `store_watch` looks at it.
std::unique_ptr<tickwheel::durable::store> open_store(const store_location&,
                                                      std::function<void(std::string_view line)> log, std::string& why);

/// Returns true if the store is a file.
bool is_file(const store_location&);

}  // namespace timer_server
