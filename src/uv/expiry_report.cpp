#include <tickwheel/uv/expiry_report.hpp>

#include "../core/stream_format.hpp"

#include <ostream>

namespace tickwheel {

namespace {

struct milliseconds {
  std::chrono::nanoseconds of;
  friend std::ostream& operator<<(std::ostream& out, milliseconds m) {
    return out << std::chrono::duration<double, std::milli>(m.of).count();
  }
};

}  // namespace

void describe(std::ostream& out, const expiry_report& r, handler_names names) {
  {
    const stream_format format{out, std::ios_base::fixed, 2};
    out << milliseconds{r.late} << " ms late: rounding " << milliseconds{r.rounding} << ", poll "
        << milliseconds{r.poll} << ", carried " << milliseconds{r.carried} << ", stall " << milliseconds{r.stall};
  }
  if (r.by == stalled_by::loop_callbacks) out << " (the loop's own callbacks)";
  if (r.by == stalled_by::handler) out << " (" << handler_name{r.handler, names} << ')';
}

std::ostream& operator<<(std::ostream& out, const expiry_report& r) {
  describe(out, r);
  return out;
}

}  // namespace tickwheel
