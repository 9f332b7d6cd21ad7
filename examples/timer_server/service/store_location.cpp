#include "store_location.hpp"

#include "../../support/as_option.hpp"

#include <tickwheel/durable/sqlite.hpp>
#ifdef WITH_POSTGRES
#include <tickwheel/durable/postgres.hpp>
#endif

#include <functional>
#include <string_view>
#include <utility>

namespace timer_server {

namespace {

constexpr std::string_view sqlite = "sqlite:";

bool begins_with(const std::string& url, std::string_view scheme) { return url.compare(0, scheme.size(), scheme) == 0; }

}  // namespace

bool is_file(const store_location& at) { return begins_with(at.url, sqlite); }

std::unique_ptr<tickwheel::durable::store> open_store(const store_location& at,
                                                      [[maybe_unused]] std::function<void(std::string_view line)> log,
                                                      std::string& why) {
  if (is_file(at)) {
    std::string path = at.url.substr(sqlite.size());
    if (!path.empty()) return tickwheel::durable::sqlite_store(std::move(path));
    why = "--store: sqlite: has no file; give one, such as sqlite:timers.db";
    return nullptr;
  }
  if (begins_with(at.url, "postgresql://") || begins_with(at.url, "postgres://")) {
#ifdef WITH_POSTGRES
    tickwheel::durable::postgres_options options{.schema = at.schema, .log = std::move(log)};
    if (const char* const problem = options.problem()) return why = as_option(problem), nullptr;
    return tickwheel::durable::postgres_store(at.url, std::move(options));
#else
    why = "--store: this program was built without PostgreSQL";
    return nullptr;
#endif
  }
  // not repeated: it may have a password
  why = "--store: it begins neither with sqlite: nor with postgresql://";
  return nullptr;
}

}  // namespace timer_server
