// The answers to requests, by what the store or its scheduler said to them.
#pragma once

#include "http_answer.hpp"

#include <tickwheel/durable/durable.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace timer_server {

/// An answer that is a document.
http_answer with_json(unsigned status, const nlohmann::ordered_json&);

/// The answer to a client that has scheduled `timer`. For `exists` it is the timer that is there already.
http_answer answer_of(tickwheel::durable::schedule_result, const tickwheel::durable::task_info& timer,
                      tickwheel::durable::on_conflict how);
http_answer answer_of(tickwheel::durable::cancel_result, const std::string& id);
http_answer answer_of(tickwheel::durable::revive_result, const std::string& id);

/// 404.
http_answer no_timer();

/// 503, with a Retry-After. `detail` is a whole sentence.
http_answer unavailable(const char* detail);

/// The same, for a store that does not answer.
http_answer store_unavailable();

/// The answer to a request that the scheduler did not take, by its UV_ code.
http_answer not_taken(int error);

}  // namespace timer_server
