#include "sessions.hpp"

namespace crash {

sessions::sessions(sharing how) : is_told_{how != sharing::cluster} {
  all_.push_back({.begins = !is_told_, .may_be_gone = is_told_, .is_silent = is_told_});
}

template <class F>
void sessions::for_each_of(unsigned process, F&& change) noexcept {
  for (session_index s = some_session + 1; s != size(); ++s)
    if (all_[s].of == process) change(all_[s]);
}

void sessions::join(unsigned process) {
  bury(process);
  silence(process);
  all_.push_back({.of = process, .begins = is_told_});
}

void sessions::bury(unsigned process) noexcept {
  for_each_of(process, [](session& s) {
    s.begins = false;
    s.may_be_gone = true;
  });
}

void sessions::doubt(unsigned process) noexcept {
  all_[some_session].may_be_gone = true;
  for (session& s : all_)
    if (process == 0 || s.of == process) s.may_be_gone = true;
}

void sessions::silence(unsigned process) noexcept {
  for_each_of(process, [](session& s) { s.is_silent = true; });
}

session_index sessions::of(unsigned process) const noexcept {
  session_index s = size() - 1;
  while (s != some_session && all_[s].of != process) --s;
  return s;
}

}  // namespace crash
