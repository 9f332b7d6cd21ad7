// The statements of the verbs. Each connection prepares those that it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tickwheel::durable::postgres {

/// The purpose of a connection of a store.
enum class link_role : std::uint8_t {
  starts,    ///< begin, finish, release
  requests,  ///< put, cancel, revive, get, list, purge
  clock,     ///< join, renew, bury, acquire, load, recover
};
inline constexpr std::size_t link_roles = 3;

/// The most connections of one role.
inline constexpr std::size_t most_links = 2;

/// Returns how many connections a store has for a role. Inserting tasks keeps a backend busy, so two of them do it.
constexpr std::size_t links_of(link_role r) noexcept { return r == link_role::requests ? most_links : 1; }

/// Returns the name of a link, such as "starts".
const char* to_string(link_role) noexcept;

enum class statement : std::uint8_t {
  read_clock,
  wait_briefly,
  look,
  await_standby,
  begin,
  finish,
  release,
  put_new,
  put,
  cancel,
  revive,
  get,
  list,
  list_dead,
  purge,
  find_name,
  new_session,
  join,
  keep_meta,
  register_links,
  renew,
  nodes,
  partitions,
  count_dead,
  beat,
  ask_node,
  end_links,
  bury,
  free_partitions,
  forget_links,
  acquire,
  load,
  give_back,
  find_lost,
  recover,
};

/// A statement and its text. The name of the prepared statement is that of the enumerator.
struct statement_text {
  statement what;
  const char* name;
  const char* sql;
  unsigned roles;  ///< a bit for each link that prepares it
};

/// Returns all statements, in the order of the enumerators.
std::span<const statement_text> all_statements() noexcept;
/// Returns the name of a prepared statement.
const char* name_of(statement) noexcept;

}  // namespace tickwheel::durable::postgres
