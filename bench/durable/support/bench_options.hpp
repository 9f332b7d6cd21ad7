// The options of durable_bench.
#pragma once

#include "../../support/json_file.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace tickwheel::bench {

inline const std::vector<std::string> all_parts{"rates",  "lateness", "tick",     "recovery",  "snapshot",
                                                "shares", "renewals", "takeover", "load page", "bulk",
                                                "memory", "verbs",    "peers"};

struct bench_options {
  std::string store = "sqlite";
  std::size_t nodes = 1;
  std::size_t pending = 100'000;
  std::size_t operations = 100'000;
  std::size_t rounds = 5;
  std::chrono::milliseconds lateness_time = std::chrono::seconds{10};
  std::vector<std::size_t> rates{2500};  // of lateness
  std::vector<std::string> parts{"rates", "lateness", "tick", "recovery"};
  std::size_t takeovers = 3;  // for each lease
  std::chrono::milliseconds snapshot_time = std::chrono::minutes{2};
  std::string folder = ".";
  std::string peers;  // the folder of their programs
  json_file json;

  bool measures(const std::string& part) const {
    for (const std::string& p : parts)
      if (p == part) return true;
    return false;
  }
};

}  // namespace tickwheel::bench
