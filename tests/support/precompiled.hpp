// The headers of other projects that most tests include. Targets with many tests compile them once: Meson's `cpp_pch`. This file includes
// no header of tickwheel, so that a test does not compile if it forgets one.
#ifndef TICKWHEEL_TESTS_PRECOMPILED_HPP  // a `#pragma once` would be in a main file
#define TICKWHEEL_TESTS_PRECOMPILED_HPP

#include "prelude.hpp"

#include <gmock/gmock.h>
#include <boost/intrusive/list.hpp>

#include <coroutine>

#endif
