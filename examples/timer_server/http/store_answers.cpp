#include "store_answers.hpp"

#include "../timers/timer_document.hpp"
#include "problem_document.hpp"

#include <uv.h>

#include <chrono>
#include <string_view>

namespace timer_server {

namespace durable = tickwheel::durable;
using durable::schedule_result;

namespace {

http_answer conflict(std::string_view code, const char* detail) {
  return answer_with({.status = 409, .code = code, .detail = detail});
}

http_answer unknown_outcome(const char* what_next) {
  return answer_with(
      {.status = 504,
       .code = "unknown",
       .detail = std::string{"The store has not confirmed the request, and may have done it. "} + what_next});
}

}  // namespace

http_answer with_json(unsigned status, const nlohmann::ordered_json& document) {
  return {.status = status, .content_type = "application/json", .body = text_of(document)};
}

http_answer no_timer() { return answer_with({.status = 404, .code = "not-found", .detail = "No timer has this id."}); }

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

http_answer answer_of(durable::cancel_result result, const std::string& id) {
  switch (result) {
    case durable::cancel_result::cancelled:
      return {.status = 204};
    case durable::cancel_result::running:
      return with_json(202, {{"id", id},
                             {"result", "running"},
                             {"detail",
                              "The timer is being called, or waits for a connection. A call that goes on is not "
                              "stopped. No other follows."}});
    case durable::cancel_result::finished:
      return conflict("finished", "The timer had finished before.");
    case durable::cancel_result::not_found:
      return no_timer();
    case durable::cancel_result::unavailable:
      return store_unavailable();
    case durable::cancel_result::unknown:
      break;
  }
  return unknown_outcome("Send the same request again.");
}

http_answer answer_of(durable::revive_result result, const std::string& id) {
  switch (result) {
    case durable::revive_result::revived:
      return with_json(200, {{"id", id}, {"result", "revived"}, {"state", "pending"}});
    case durable::revive_result::not_dead:
      return conflict("not-dead", "The timer is not dead, so there is nothing to revive.");
    case durable::revive_result::not_found:
      return no_timer();
    case durable::revive_result::unavailable:
      return store_unavailable();
    case durable::revive_result::unknown:
      break;
  }
  return unknown_outcome("Read the timer to find out.");
}

http_answer answer_of(schedule_result result, const durable::task_info& timer, durable::on_conflict how) {
  const auto scheduled = [&](unsigned status) {
    auto document = document_of(timer);
    document["result"] = durable::to_string(result);
    return with_json(status, document);
  };
  switch (result) {
    case schedule_result::scheduled:
      return scheduled(201);
    case schedule_result::replaced:
    case schedule_result::exists:
      return scheduled(200);
    case schedule_result::ended:
      return conflict("ended", "A timer of this id is dead, or has ended a short time ago. Nothing was changed.");
    case schedule_result::running:
      return conflict("running", "The timer of this id is being called. Nothing was changed.");
    case schedule_result::refused:
      return answer_with({.status = 422, .code = "refused", .detail = "The store refuses this timer."});
    case schedule_result::unavailable:
      return store_unavailable();
    case schedule_result::unknown:
      break;
  }
  return unknown_outcome(
      how == durable::on_conflict::keep
          ? "Send the same request again."
          : "Read the timer to find out. If you send the request again, the timer may be called twice.");
}

}  // namespace timer_server
