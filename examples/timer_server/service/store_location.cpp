#include "store_location.hpp"

#include <tickwheel/durable/sqlite.hpp>
#ifdef WITH_POSTGRES
#include <tickwheel/durable/postgres.hpp>
#endif

#include <string_view>
#include <utility>

namespace timer_server {

std::unique_ptr<tickwheel::durable::store> open_store(const store_location& at, std::string& why) {
  const auto begins_with = [&](std::string_view scheme) { return at.url.compare(0, scheme.size(), scheme) == 0; };
  constexpr std::string_view sqlite = "sqlite:";
  if (begins_with(sqlite)) {
    std::string path = at.url.substr(sqlite.size());
    if (!path.empty()) return tickwheel::durable::sqlite_store(std::move(path));
    why = "sqlite: has no file; give one, such as sqlite:timers.db";
    return nullptr;
  }
  if (begins_with("postgresql://") || begins_with("postgres://")) {
#ifdef WITH_POSTGRES
    tickwheel::durable::postgres_options options{.schema = at.schema};
    if (const char* const problem = options.problem()) return why = problem, nullptr;
    return tickwheel::durable::postgres_store(at.url, std::move(options));
#else
    why = "this program was built without PostgreSQL";
    return nullptr;
#endif
  }
  // not repeated: it may have a password
  why = "it begins neither with sqlite: nor with postgresql://";
  return nullptr;
}

}  // namespace timer_server
