// A test that leaves no allocation behind, and a call whose allocations fail.
#pragma once

#include "../../support/allocation_probe.hpp"
#include "../../support/prelude.hpp"

#include <uv.h>

/// The first base of a test, which leaves no allocation behind.
class leak_check {
 protected:
  ~leak_check() { EXPECT_EQ(allocations::outstanding(), before_) << "something was leaked"; }

 private:
  std::size_t before_ = allocations::outstanding();
};

/// Makes the call with its first allocation failing, then with its second, and so on until none does: then it must
/// answer 0, and before that UV_ENOMEM, with nothing leaked. Returns how many there were.
template <class Call>
std::size_t with_each_allocation_failing(Call call) {
  for (std::size_t spared = 0;; ++spared) {
    const auto before = allocations::outstanding();
    std::optional<allocations::failure> failure{spared};
    const int answer = call();
    const bool struck = failure->struck();
    failure.reset();
    EXPECT_EQ(answer, struck ? UV_ENOMEM : 0) << "allocation " << spared;
    if (!struck || answer == 0) return spared;
    EXPECT_EQ(allocations::outstanding(), before) << "allocation " << spared << " was leaked";
  }
}
