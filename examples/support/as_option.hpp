// The library's message about an option, in the words of a command line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

/// Returns "--lease: it is shorter than 100 ms" for "scheduler_options::lease is shorter than 100 ms". Requires: the option of the
/// command line has the name of the field.
inline std::string as_option(std::string_view problem) {
  problem.remove_prefix(problem.find("::") + 2);
  const auto space = std::min(problem.find(' '), problem.size());
  std::string name{problem.substr(0, space)};
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name + ": it" + std::string{problem.substr(space)};
}
