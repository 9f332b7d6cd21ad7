// The number of connections that a process may have: each takes a descriptor, and a shell usually grants 1024.
#pragma once

#include <sys/resource.h>

#include <string>

/// Raises the limit as far as a process may by itself, and returns it.
inline rlim_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t granted = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : granted;
}

/// Returns an error text if this process may not have `descriptors` beside those that each program has. Otherwise empty.
inline std::string too_many_descriptors(rlim_t descriptors) {
  constexpr rlim_t others = 32;
  const rlim_t limit = raise_descriptor_limit();
  if (limit >= descriptors + others) return {};
  return std::to_string(descriptors) + " do not fit into the " + std::to_string(limit) +
         " descriptors that this process may have";
}
