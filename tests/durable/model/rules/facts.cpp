#include "facts.hpp"

#include <iterator>

namespace durable_model {

span store_times::range(nanos from, nanos to) const {
  span all{at(to), at(to)};
  for (auto c = changes_.rbegin(); c != changes_.rend(); ++c) {
    if (c->at < from) return hull(all, {from + c->offset, from + c->offset});
    all = hull(all, {c->at + c->offset, c->at + c->offset});
    if (std::next(c) != changes_.rend()) all = hull(all, {c->at + std::next(c)->offset, c->at + std::next(c)->offset});
  }
  return all;
}

}  // namespace durable_model
