// Workloads whose operations are apart.
#pragma once

#include "../experiment/experiment.hpp"
#include "../experiment/separation.hpp"
#include "../experiment/subject.hpp"
#include "../experiment/workload.hpp"

#include <string>

namespace tickwheel::bench {

/// A workload with each of its operations by itself. The script is the same.
template <class Workload>
struct fenced : Workload {
  static inline const std::string name = std::string{Workload::name} + "_fenced";

  template <subject S>
  static void run(experiment<S>& e) {
    Workload::template run<isolated>(e);
  }
};

}  // namespace tickwheel::bench
