// Workloads with a barrier after each operation.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/op_barrier.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <string>

namespace tickwheel::bench {

/// The same workload with the same script, whose operations do not overlap. Its benchmark is called NAME_fenced.
template <class Workload>
struct serialized : Workload {
  static inline const std::string name = std::string{Workload::name} + "_fenced";

  template <subject S>
  static void run(experiment<S>& e) {
    Workload::template run<isolated>(e);
  }
};

}  // namespace tickwheel::bench
