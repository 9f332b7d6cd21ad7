// A connection with an idle timeout, for the tests that turn the clock by hand.
#pragma once

#include "owner.hpp"
#include "subject_test.hpp"

#include <tickwheel/net/idle_timeout.hpp>

using connection = owner_of<tickwheel::idle_timeout<&owner::on_time>>;
