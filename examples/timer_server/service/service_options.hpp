// The options of the service, and the files and addresses that they name.
#pragma once

#include "../../http/http_framing.hpp"
#include "../../support/command_line.hpp"
#include "../callbacks/callback_caller.hpp"
#include "../http/bearer_tokens.hpp"
#include "event_log.hpp"
#include "store_location.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/tickwheel.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace timer_server {

struct service_options {
  std::string listen = "127.0.0.1:8081";
  store_location store;
  std::string tokens_file;
  token_rate rate{.per_second = 0, .burst = 100};
  // below the 90 s after which systemd kills, and the 30 s of Kubernetes
  std::chrono::milliseconds drain = std::chrono::seconds{25};
  log_format log = log_format::text;

  framing_limits framing;
  tickwheel::phase_limits phases{.header = std::chrono::seconds{10},
                                 .body = std::chrono::minutes{1},
                                 .keep_alive = std::chrono::seconds{75},
                                 .max_age = std::chrono::hours{1}};
  tickwheel::rate_limits min_rate;
  std::size_t connections = 1024;

  tickwheel::durable::scheduler_options scheduler;
  callback_options callbacks;
  std::vector<std::string> allow;
  std::string secret_file;
};

/// Adds all options to the command line. Parsing it sets `into`, which must outlive it.
void add_options(CLI::App& to, service_options& into);

/// Reads the files that the options name, and checks the options together. Returns an empty text, or a message that says what is wrong.
std::string read_options(service_options& o, std::optional<bearer_tokens>& tokens);

}  // namespace timer_server
