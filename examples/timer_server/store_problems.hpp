// Answers to requests that the store, or the scheduler, cannot carry out now.
#pragma once

#include "http_answer.hpp"

namespace timer_server {

/// 503, with a Retry-After. `detail` is a whole sentence.
http_answer unavailable(const char* detail);

/// The same, for a store that does not answer.
http_answer store_unavailable();

/// The answer to a request that the scheduler did not take, by its UV_ code.
http_answer not_taken(int error);

}  // namespace timer_server
