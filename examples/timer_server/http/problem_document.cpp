#include "problem_document.hpp"

#include <boost/beast/http/status.hpp>
#include <nlohmann/json.hpp>

namespace timer_server {

std::string phrase_of(unsigned status) {
  constexpr unsigned unprocessable = 422, misdirected = 421;  // Boost 1.74 has their former names, or none
  if (status == unprocessable) return "Unprocessable Content";
  if (status == misdirected) return "Misdirected Request";
  return std::string{boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status))};
}

http_answer answer_with(const problem& what) {
  nlohmann::ordered_json document{{"type", "about:blank"},
                                  {"title", phrase_of(what.status)},
                                  {"status", what.status},
                                  {"code", what.code},
                                  {"detail", what.detail}};
  if (what.field) document["field"] = *what.field;
  // text that a peer has sent may be no UTF-8
  return {.status = what.status,
          .content_type = "application/problem+json",
          .body = document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n'};
}

}  // namespace timer_server
