#include <tickwheel/version.hpp>

#include <string_view>

namespace tickwheel {

static_assert(std::string_view{TICKWHEEL_VERSION} == TICKWHEEL_PROJECT_VERSION,
              "meson.build and include/tickwheel/version.h name different versions");

const char* version() noexcept { return TICKWHEEL_VERSION; }

}  // namespace tickwheel
