// A timer as the API shows it.
#pragma once

#include <tickwheel/durable/task.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace timer_server {

/// Returns the document of a timer. The headers and the body of its callback are left out, because they may be secret.
nlohmann::ordered_json document_of(const tickwheel::durable::task_info&);

/// Returns the text of a document, with a newline.
std::string text_of(const nlohmann::ordered_json&);

}  // namespace timer_server
