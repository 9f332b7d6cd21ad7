// The sessions of the processes, as far as the journal tells of them.
#pragma once

#include "journal.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crash {

/// The place of a session in the order in which they began.
using session_index = std::uint32_t;

/// The session of a row that nobody runs for certain. If the journal does not tell of sessions, it stands for that of any process.
inline constexpr session_index some_session = 0;

/// All sessions that began.
class sessions {
 public:
  explicit sessions(sharing);

  /// A process begins a session; an earlier one of it is gone.
  void join(unsigned process);
  /// The session of a process is gone: others may recover its rows, and it begins nothing more.
  void bury(unsigned process) noexcept;
  /// Others may take this process for dead from now on. 0: any process.
  void doubt(unsigned process) noexcept;
  /// The process is over.
  void silence(unsigned process) noexcept;

  session_index size() const noexcept { return static_cast<session_index>(all_.size()); }
  /// Returns the last session of a process.
  session_index of(unsigned process) const noexcept;
  bool belongs_to(session_index s, unsigned process) const noexcept {
    return s == some_session || all_[s].of == process;
  }
  /// Returns true if it may begin tasks.
  bool begins(session_index s) const noexcept { return all_[s].begins; }
  /// Returns true if others may recover its rows.
  bool may_be_gone(session_index s) const noexcept { return all_[s].may_be_gone; }
  /// Returns true if no handler of its starts is entered any more.
  bool is_silent(session_index s) const noexcept { return all_[s].is_silent; }

 private:
  struct session {
    unsigned of = 0;
    bool begins = false;
    bool may_be_gone = false;
    bool is_silent = false;
  };
  template <class F>
  void for_each_of(unsigned process, F&& change) noexcept;

  std::vector<session> all_;
  bool is_told_;
};

}  // namespace crash
