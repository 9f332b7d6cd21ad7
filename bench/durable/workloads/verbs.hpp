// The verbs of a store by themselves: load, begin and finish.
#pragma once

#include "../subjects/store_subject.hpp"
#include "../support/bench_options.hpp"
#include "../support/figure_table.hpp"

namespace tickwheel::bench {

/// One call at a time, with as many elements as a scheduler gives it.
void measure_verbs(const bench_options&, const store_subject&, figure_table&);

}  // namespace tickwheel::bench
