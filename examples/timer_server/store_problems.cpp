#include "store_problems.hpp"

#include "problem_document.hpp"

#include <uv.h>

#include <chrono>

namespace timer_server {

http_answer unavailable(const char* detail) {
  http_answer answer = answer_with({.status = 503, .code = "unavailable", .detail = detail});
  answer.retry_after = std::chrono::seconds{1};
  return answer;
}

http_answer store_unavailable() { return unavailable("The store cannot be reached. Nothing was changed."); }

http_answer not_taken(int error) {
  if (error == UV_EINVAL)
    return answer_with({.status = 422, .code = "invalid", .detail = "The scheduler takes no such request."});
  return unavailable(error == UV_EAGAIN ? "The service has too many requests. Nothing was changed."
                                        : "The service stops. Nothing was changed.");
}

}  // namespace timer_server
