// The place of the timers: "sqlite:timers.db" or "postgresql://host/database".
#pragma once

#include <tickwheel/durable/store.hpp>

#include <memory>
#include <string>

namespace timer_server {

struct store_location {
  std::string url = "sqlite:timers.db";
  std::string schema = "tickwheel";  // of PostgreSQL
};

/// Returns the store, or null if `url` names none that this program has; `why` then says what is wrong.
std::unique_ptr<tickwheel::durable::store> open_store(const store_location&, std::string& why);

}  // namespace timer_server
