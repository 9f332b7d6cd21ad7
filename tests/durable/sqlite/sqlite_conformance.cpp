// sqlite_store in the conformance suite.
#include "sqlite_fixture.hpp"

namespace conformance {

std::vector<store_kind> stores_under_test() {
  return {{"sqlite", []() -> std::unique_ptr<store_fixture> { return std::make_unique<sqlite_fixture>(); }}};
}

}  // namespace conformance
