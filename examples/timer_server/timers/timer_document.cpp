#include "timer_document.hpp"

#include "../text/times.hpp"
#include "timer_payload.hpp"

#include <tickwheel/durable/results.hpp>

namespace timer_server {

namespace durable = tickwheel::durable;

nlohmann::ordered_json document_of(const durable::task_info& timer) {
  nlohmann::ordered_json document{
      {"id", timer.what.id}, {"state", durable::to_string(timer.state)}, {"due", write_moment(timer.what.due)}};
  if (timer.next != durable::clock::time_point::max()) document["next"] = write_moment(timer.next);
  if (timer.what.period.count() != 0) document["every"] = write_duration(timer.what.period);
  document["attempts"] = timer.attempts;
  document["lost"] = timer.lost;
  if (timer.cancelling) document["cancelling"] = true;
  if (!timer.last_error.empty()) document["last_error"] = timer.last_error;
  if (const auto callback = read_payload(timer.what.payload)) {
    document["callback"] = callback->url;
    document["method"] = callback->method;
  }
  return document;
}

std::string text_of(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace timer_server
