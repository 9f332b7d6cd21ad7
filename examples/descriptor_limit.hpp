// How many connections a process may have: a descriptor each, of which a shell usually grants 1024.
#pragma once

#include <sys/resource.h>

/// Raises the limit as far as a process may by itself, and says how far that is.
inline rlim_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t granted = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : granted;
}
