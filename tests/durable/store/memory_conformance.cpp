// memory_store in the conformance suite.
#include "memory_fixtures.hpp"

namespace conformance {

std::vector<store_kind> stores_under_test() {
  return {{"memory", []() -> std::unique_ptr<store_fixture> { return std::make_unique<manual_memory_fixture>(); }},
          {"memory_live", []() -> std::unique_ptr<store_fixture> { return std::make_unique<live_memory_fixture>(); }}};
}

}  // namespace conformance
