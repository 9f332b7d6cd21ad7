// The elements of a call in groups, each of which is written in a transaction.
#pragma once

#include <cstddef>
#include <vector>

namespace tickwheel::durable::postgres {

using indices = std::vector<std::size_t>;

/// Returns the indices of so many elements.
indices all_indices(std::size_t size);

/// Halves the last group. Its first half is then the last one.
void split_last(std::vector<indices>& groups);

}  // namespace tickwheel::durable::postgres
