// Writes a handler for people: by the name that the user has for it, or else by its address.
#pragma once

#include <tickwheel/uv/expiry_report.hpp>

#include <ostream>

namespace tickwheel {

struct handler_name {
  expiry_report::handler_id handler;
  handler_names names;

  friend std::ostream& operator<<(std::ostream& out, const handler_name& n) {
    const char* const name = n.names != nullptr ? n.names(n.handler) : nullptr;
    if (name != nullptr) return out << "the handler " << name;
    return out << "the handler at " << reinterpret_cast<const void*>(n.handler);
  }
};

}  // namespace tickwheel
