#include "shrinker.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace simulation {

namespace {

constexpr std::size_t most_runs = 3000;

// "D1", or the words of what has no number.
std::string kind_of(const result& r) {
  const std::string words = r.broken.substr(0, r.broken.find(':'));
  return words.substr(0, words.find(" for "));
}

}  // namespace

shrunk shrink(const scenario& s, const result& failed) {
  shrunk least{s, failed, 0};
  const std::string kind = kind_of(failed);
  // Takes out `size` events at a time; then half as many.
  for (std::size_t size = std::max<std::size_t>(s.events.size() / 2, 1); size != 0; size /= 2) {
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (std::size_t from = 0; from < least.what.events.size() && least.runs != most_runs;) {
        scenario smaller = least.what;
        const auto begin = smaller.events.begin() + static_cast<std::ptrdiff_t>(from);
        const std::size_t count = std::min(size, smaller.events.size() - from);
        smaller.events.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
        result r = run(smaller);
        ++least.runs;
        if (!r.broken.empty() && kind_of(r) == kind) {
          least.what = std::move(smaller);
          least.how = std::move(r);
          has_changed = size == 1;
        } else {
          from += size;
        }
      }
    }
  }
  return least;
}

}  // namespace simulation
