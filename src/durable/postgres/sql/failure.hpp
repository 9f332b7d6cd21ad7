// A failure of the server or of a connection, and what to do about it.
#pragma once

#include <libpq-fe.h>

#include <string>
#include <string_view>

namespace tickwheel::durable::postgres {

/// The remedy for a failure.
enum class remedy {
  repeat,     ///< the same transaction may succeed a little later
  split,      ///< one element of the batch is refused: the others may succeed
  isolate,    ///< one element of the batch may have met a damaged row or a broken trigger: the others may succeed
  reconnect,  ///< the server cannot write any more: another host may
  none,       ///< the transaction had no effect, and the connection goes on
};

/// An SQLSTATE and a text.
class failure {
 public:
  failure() = default;
  failure(std::string_view sqlstate, std::string text) : state_{sqlstate}, text_{std::move(text)} {}
  /// The failure of a statement.
  static failure of(const PGresult&);
  /// The failure of a connection. Its verbosity is PQERRORS_VERBOSE: only then the message has an SQLSTATE.
  static failure of(const PGconn&);
  /// A failure that no later try changes, with the UV_ code for `join_call::error`.
  static failure final(int uv_code, std::string text);

  bool is_set() const noexcept { return !text_.empty(); }
  /// Empty: the failure is not one of the server.
  const std::string& sqlstate() const noexcept { return state_; }
  const std::string& text() const noexcept { return text_; }

  remedy what_helps() const noexcept;
  /// Returns true for each SQLSTATE of a class, its first two characters.
  bool is_of(std::string_view sqlstate_class) const noexcept { return state_.starts_with(sqlstate_class); }
  /// Returns the UV_ code for `join_call::error`; 0: a later try may succeed as things are.
  int uv_code() const noexcept;

 private:
  std::string state_;
  std::string text_;
  bool is_of_users_function_ = false;
  int uv_code_ = 0;
};

/// Returns true for the warning that a commit has not waited for the synchronous standby. The server sends it after the commit, and before
/// it answers.
bool tells_of_lone_commit(const PGresult& notice) noexcept;

}  // namespace tickwheel::durable::postgres
