// How many connections a process may have: a descriptor each, of which a shell usually grants 1024.
#pragma once

#include <sys/resource.h>

#include <string>

/// Raises the limit as far as a process may by itself, and says how far that is.
inline rlim_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t granted = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : granted;
}

/// What to say of more `descriptors` than this process may have beside those that a program has anyway; empty when they fit.
inline std::string too_many_descriptors(rlim_t descriptors) {
  constexpr rlim_t others = 32;
  const rlim_t limit = raise_descriptor_limit();
  if (limit >= descriptors + others) return {};
  return std::to_string(descriptors) + " do not fit into the " + std::to_string(limit) +
         " descriptors that this process may have";
}
