// What most tests include of other projects, for targets with many of them: Meson's `cpp_pch`. It has no header of tickwheel, so that a
// test which forgets to include one fails.
#ifndef TICKWHEEL_TESTS_PRECOMPILED_HPP  // a `#pragma once` would be in a main file
#define TICKWHEEL_TESTS_PRECOMPILED_HPP

#include "prelude.hpp"

#include <gmock/gmock.h>
#include <boost/intrusive/list.hpp>

#include <coroutine>

#endif
