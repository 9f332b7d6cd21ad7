// Finds the element of a call by its id.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace tickwheel::durable::postgres {

/// The places of ids in a call, which outlives it. Built when it is first asked.
class id_places {
 public:
  /// `id(i)` returns the id of the i-th of `size` elements.
  template <class F>
  std::optional<std::size_t> find(std::string_view wanted, std::size_t size, F&& id) {
    if (places_.empty())
      for (std::size_t i = 0; i != size; ++i) places_.emplace(id(i), i);
    const auto at = places_.find(wanted);
    return at == places_.end() ? std::nullopt : std::optional{at->second};
  }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
};

}  // namespace tickwheel::durable::postgres
