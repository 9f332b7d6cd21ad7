// Invariants for any input of a peer: a check for the fuzzer, and for the inputs that it has found.
#pragma once

#include "http/http_exchange.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// One exchange takes the bytes as a whole and another in pieces, whose lengths the first two bytes decide. Returns the first difference;
/// empty if there is none.
inline std::string what_is_wrong_with(std::string_view input) {
  constexpr http_limits limits{.header = 256, .body = 512, .out = 1024};
  if (input.size() < 2) return {};
  std::uint32_t state = static_cast<std::uint8_t>(input[0]) + 256U * static_cast<std::uint8_t>(input[1]);
  const auto next_length = [&state, longest = 1 + state % 97] {
    state = state * 1664525 + 1013904223;
    return 1 + (state >> 16) % longest;
  };
  input.remove_prefix(2);

  http_exchange whole{limits, std::chrono::seconds{5}}, pieces{limits, std::chrono::seconds{5}};
  const auto take = [](http_exchange& by, std::string_view bytes, std::string& all) {
    do {
      std::string out;
      by.take(bytes, out);
      all += out;
      bytes = {};
    } while (by.held_back());
  };
  std::string of_whole, of_pieces;
  take(whole, input, of_whole);
  while (!input.empty()) {
    const std::string_view piece = input.substr(0, next_length());
    take(pieces, piece, of_pieces);
    if (pieces.buffered() >= limits.header) return "more was kept than a header may have";
    input.remove_prefix(piece.size());
  }

  // An input may be refused earlier or with another status. For one, the parser counts a chunk twice against the limit if it must return to an
  // extension that is malformed in a certain way.
  if (whole.refused() + pieces.refused() == 0 && whole.at() != pieces.at()) return "pieces led to another stage";
  whole.end(of_whole);
  pieces.end(of_pieces);
  for (const auto* const each : {&whole, &pieces}) {
    if (each->at() != http_exchange::stage::over) return "the end was none";
    if (each->refused() > 1) return "more than one request was refused";
  }
  if (whole.refused() != pieces.refused()) return "pieces were refused, or not";
  if (whole.answered() != pieces.answered()) return "pieces were another number of requests";
  const auto before_refusal = [&whole](const std::string& all) {
    return whole.refused() == 0 ? all : all.substr(0, all.rfind("HTTP/1.1 "));
  };
  if (before_refusal(of_whole) != before_refusal(of_pieces))
    return "pieces were answered otherwise:\n" + of_whole + "\nby pieces:\n" + of_pieces;
  return {};
}
