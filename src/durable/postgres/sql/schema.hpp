// The tables and functions in the database, and the scripts that make them and look at them.
#pragma once

#include "failure.hpp"
#include "statements.hpp"

#include <tickwheel/durable/postgres.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tickwheel::durable::postgres {

/// The version of the tables. A store uses databases of this version only; it brings older ones up to date.
inline constexpr int schema_version = 1;
/// The oldest server, as PQserverVersion answers it.
inline constexpr int oldest_server = 14'00'00;

/// Returns `name` as an SQL identifier, in quotes.
std::string quoted_name(std::string_view name);
/// Returns `text` as an SQL literal, in quotes.
std::string quoted_text(std::string_view text);

/// Returns why a database of this encoding is refused. Empty: it is not.
std::string problem_of_encoding(std::string_view encoding);

/// Returns a script whose last result has (is there a schema, does it have our table `meta`).
std::string look_script(const postgres_options&);
/// Returns a script whose last result has (version, partitions, has this role all rights). Requires: `meta` is there.
std::string meta_script(const postgres_options&);
/// Returns a script that makes the tables (`version` is 0), or brings those of `version` to the next version.
std::string make_script(const postgres_options&, bool has_schema, int version);
/// Returns true for a failure of `make_script` after which a look finds something else: another node was faster.
bool is_outdated(const failure&);
/// Returns how to give a role the rights that a node needs.
std::string advice_on_rights(const postgres_options&);

/// The columns of the last result of `settings_script`.
enum class setting { pid, started, server, fsync, full_page_writes, encoding };
/// Returns a script that gives a new connection its settings.
std::string settings_script(const postgres_options&, link_role);
/// Returns a script that prepares the statements of a link. Requires: the tables are there.
std::string prepare_script(link_role);
/// Returns a script that lifts the counter of revisions to the server's clock. Requires: the tables are there.
std::string lift_script();
/// Returns a script that ends backends, given as pairs of (pid, time of its start). Its last result says how many are still
/// there.
std::string end_script(const std::vector<std::pair<std::int64_t, std::int64_t>>& backends);

}  // namespace tickwheel::durable::postgres
