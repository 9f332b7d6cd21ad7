// Which tickwheel a program was compiled against, and which it runs with.
//
//   #if TICKWHEEL_VERSION_NUMBER >= TICKWHEEL_MAKE_VERSION(0, 2, 0)    // the headers
//   std::clog << "tickwheel " << tickwheel::version() << '\n';         // the library
#pragma once

#include <tickwheel/core/export.h>
#include <tickwheel/version.h>

namespace tickwheel {

/// The version of the library that is linked, as "major.minor.patch"; TICKWHEEL_VERSION is that of the headers. *Any thread.*
TICKWHEEL_API const char* version() noexcept;

}  // namespace tickwheel
