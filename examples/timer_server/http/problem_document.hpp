// Errors as documents for programs and people (RFC 9457).
#pragma once

#include "http_answer.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace timer_server {

struct problem {
  unsigned status = 500;
  std::string_view code{};             // for programs; it stays the same, whatever the detail says
  std::string detail{};                // for people: a whole sentence
  std::optional<std::string> field{};  // of the request's document
};

/// Returns an answer of type application/problem+json. The document has the members `type`, `title`, `status`, `code`, `detail`, and
/// `field` if there is one.
http_answer answer_with(const problem&);

/// Returns the phrase of a status, such as "Not Found".
std::string phrase_of(unsigned status);

}  // namespace timer_server
