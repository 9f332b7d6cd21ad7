// postgres_store in the conformance suite.
#include "postgres_fixture.hpp"

namespace conformance {

std::vector<store_kind> stores_under_test() {
  return {{"postgres", []() -> std::unique_ptr<store_fixture> {
             return std::make_unique<postgres_fixture>(test_server::shared(), true);
           }}};
}

}  // namespace conformance
