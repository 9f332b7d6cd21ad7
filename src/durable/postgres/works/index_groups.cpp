#include "index_groups.hpp"

#include <numeric>
#include <utility>

namespace tickwheel::durable::postgres {

indices all_indices(std::size_t size) {
  indices all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

void split_last(std::vector<indices>& groups) {
  indices& last = groups.back();
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
  indices first{last.begin(), middle};
  last.erase(last.begin(), middle);
  groups.push_back(std::move(first));
}

}  // namespace tickwheel::durable::postgres
