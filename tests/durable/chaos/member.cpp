#include "member.hpp"

#include <poll.h>

namespace chaos {

void await_output(const std::vector<member>& members, std::chrono::milliseconds patience) {
  std::vector<pollfd> watched;
  for (const member& m : members)
    if (m.is_alive()) watched.push_back({m.process->output(), POLLIN, 0});
  (void)poll(watched.data(), watched.size(), static_cast<int>(patience.count()));
}

}  // namespace chaos
