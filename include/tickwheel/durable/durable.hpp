// All of the durable layer except the stores, which have a header each: sqlite.hpp and memory.hpp.
#pragma once

#include <tickwheel/durable/execution.hpp>
#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/scheduler.hpp>
#include <tickwheel/durable/scheduler_options.hpp>
#include <tickwheel/durable/scheduler_stats.hpp>
#include <tickwheel/durable/store.hpp>
#include <tickwheel/durable/task.hpp>
