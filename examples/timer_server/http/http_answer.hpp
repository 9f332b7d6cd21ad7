// The answer to a request.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace timer_server {

struct http_answer {
  unsigned status = 200;
  std::string content_type{};          // empty: there is no body
  std::string body{};                  // the connection leaves it out if the request was a HEAD
  std::string allow{};                 // of a 405: the methods that are allowed
  std::chrono::seconds retry_after{};  // zero: none is told
  bool asks_for_token = false;         // of a 401
};

/// Takes an answer. Called at most once, on the loop.
using answer_function = std::function<void(http_answer)>;

}  // namespace timer_server
