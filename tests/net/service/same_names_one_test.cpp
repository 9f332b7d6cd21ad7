// One of two source files that have classes of the same names: same_names.hpp.
namespace {
constexpr int here = 1;
}

#include "same_names.hpp"

namespace {

TEST(unnamed_namespace, handler_is_that_of_its_own_file_one) { expect_handlers_of_this_file(); }

}  // namespace
