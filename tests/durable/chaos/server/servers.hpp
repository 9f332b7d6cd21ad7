// The PostgreSQL servers of the rounds.
#pragma once

#include "../../postgres/test_server.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace chaos {

/// The standby that takes over when the primary is gone.
enum class standby { none, synchronous, asynchronous };

/// Servers that several rounds share, each started by its first use.
class shared_servers {
 public:
  /// `faketime`: libfaketime; empty: there is no server whose clock can be set.
  explicit shared_servers(std::string faketime) : faketime_{std::move(faketime)} {}
  ~shared_servers();
  shared_servers(const shared_servers&) = delete;
  shared_servers& operator=(const shared_servers&) = delete;

  bool can_set_clock() const { return !faketime_.empty(); }
  const std::string& faketime() const { return faketime_; }
  conformance::test_server& plain();
  conformance::test_server& with_clock();
  /// Lets the clock of `with_clock` run so far ahead of the true one, in nanoseconds.
  void set_clock(std::int64_t ahead);

 private:
  const std::string faketime_;
  std::string clock_file_;
  std::unique_ptr<conformance::test_server> plain_;
  std::unique_ptr<conformance::test_server> with_clock_;
};

/// A primary and its standby, for one round.
class server_pair {
 public:
  explicit server_pair(standby);

  conformance::test_server& primary() { return *primary_; }
  /// Kills the primary, then promotes the standby. Returns the new primary.
  conformance::test_server& fail_over();
  /// Returns a conninfo of the one that is the primary.
  std::string conninfo() const;

 private:
  std::unique_ptr<conformance::test_server> primary_;
  std::unique_ptr<conformance::test_server> standby_;
};

}  // namespace chaos
