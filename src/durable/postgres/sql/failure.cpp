#include "failure.hpp"

#include <uv.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace tickwheel::durable::postgres {

namespace {

constexpr std::size_t sqlstate_length = 5;

bool is_sqlstate(std::string_view text) noexcept {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto is_part = [&](unsigned char c) { return is_digit(c) || std::isupper(c) != 0; };
  return text.size() == sqlstate_length && std::all_of(text.begin(), text.end(), is_part) &&
         std::any_of(text.begin(), text.end(), is_digit);  // unlike FATAL
}

// Returns true for a code that a trigger has made up. The standard keeps classes that begin with 0 to 4 and A to H for itself, and
// PostgreSQL has some of the others.
bool is_of_application(std::string_view sqlstate) noexcept {
  constexpr std::string_view of_standard{"01234ABCDEFGH"};
  constexpr std::array of_server{"53", "54", "55", "57", "58", "72", "P0", "XX"};
  return sqlstate.size() == sqlstate_length && of_standard.find(sqlstate.front()) == std::string_view::npos &&
         std::none_of(of_server.begin(), of_server.end(), [=](const char* c) { return sqlstate.starts_with(c); });
}

// In "FATAL:  28P01: text" the place of "28P01: ". npos: there is none.
std::size_t find_sqlstate(std::string_view line) noexcept {
  for (auto at = line.find(':'); at != std::string_view::npos; at = line.find(':', at + 1)) {
    const auto begin = line.find_first_not_of(' ', at + 1);
    if (begin == std::string_view::npos || begin == at + 1) continue;
    const std::string_view rest = line.substr(begin);
    if (is_sqlstate(rest.substr(0, sqlstate_length)) && rest.substr(sqlstate_length).starts_with(": ")) return begin;
  }
  return std::string_view::npos;
}

void append_line(std::string& text, std::string_view line) {
  if (!text.empty()) text += "; ";
  text += line;
}

std::string_view field(const PGresult& of, int which) noexcept {
  const char* const text = PQresultErrorField(&of, which);
  return text != nullptr ? std::string_view{text} : std::string_view{};
}

// Returns true if a function of the user's has failed: of a trigger, or of a constraint. The context has a line for each function that
// ran, and names it. Its last line may have the parameters of the statement. Of our functions, only `forgotten` is one that our statements
// call and that reads tables. A context may be translated, but not its names.
bool names_users_function(std::string_view context) noexcept {
  const auto end = context.rfind('\n');
  const std::string_view last = context.substr(end == std::string_view::npos ? 0 : end);
  if (last.find("$1 = ") != std::string_view::npos) context.remove_suffix(last.size());
  return !context.empty() && context.find("\"forgotten\"") == std::string_view::npos;
}

// Returns the line of a context that names the outermost function. Empty: there is none.
std::string_view function_in(std::string_view context) noexcept {
  std::string_view found;
  while (!context.empty()) {
    const std::string_view line = context.substr(0, context.find('\n'));
    if (line.find("PL/pgSQL") != std::string_view::npos) found = line;
    context.remove_prefix(std::min(line.size() + 1, context.size()));
  }
  return found;
}

}  // namespace

failure failure::of(const PGresult& from) {
  std::string text{field(from, PG_DIAG_MESSAGE_PRIMARY)};
  if (text.empty()) text = PQresultErrorMessage(&from);
  for (const char more : {PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT})
    if (const auto said = field(from, more); !said.empty()) append_line(text, said);
  failure made{field(from, PG_DIAG_SQLSTATE), text.empty() ? "the server gave no reason" : text};
  const auto context = field(from, PG_DIAG_CONTEXT);
  made.is_of_users_function_ = names_users_function(context);
  if (const auto function = function_in(context); made.what_helps() == remedy::isolate && !function.empty())
    append_line(made.text_, function);
  return made;
}

failure failure::of(const PGconn& connection) {
  std::string_view message{PQerrorMessage(&connection)};
  std::string state, text;
  while (!message.empty()) {
    const auto end = std::min(message.find('\n'), message.size());
    std::string line{message.substr(0, end)};
    message.remove_prefix(std::min(end + 1, message.size()));
    if (line.starts_with("LOCATION:") || line.empty()) continue;
    if (line.front() == '\t') line.erase(0, 1);  // libpq indents a hint
    if (const auto at = find_sqlstate(line); at != std::string::npos) {
      state = line.substr(at, sqlstate_length);  // of the last host that was tried
      line.erase(at, sqlstate_length + 2);
    }
    append_line(text, line);
  }
  if (state.empty() && PQconnectionNeedsPassword(&connection) == 1) state = "28P01";
  return {state, text.empty() ? "the connection was closed" : text};
}

failure failure::final(int uv_code, std::string text) {
  failure made{{}, std::move(text)};
  made.uv_code_ = uv_code;
  return made;
}

// The server's texts may be translated. The names of its functions are not.
bool tells_of_lone_commit(const PGresult& notice) noexcept {
  return field(notice, PG_DIAG_SOURCE_FUNCTION) == "SyncRepWaitForLSN";
}

remedy failure::what_helps() const noexcept {
  constexpr std::array repeated{"40001", "40P01", "55P03", "57014"};
  if (std::find(repeated.begin(), repeated.end(), state_) != repeated.end()) return remedy::repeat;
  if (state_ == "25006") return is_of_users_function_ ? remedy::isolate : remedy::reconnect;
  // triggers raise 09, 38, 39 and P0, and views with a condition 44
  constexpr std::array of_an_element{"09", "22", "23", "27", "38", "39", "44", "54", "P0"};
  if (is_of_application(state_) ||
      std::any_of(of_an_element.begin(), of_an_element.end(), [this](const char* c) { return is_of(c); }))
    return remedy::split;
  if (is_of("XX")) return remedy::isolate;
  const bool is_of_server = is_of("53") || is_of("57") || is_of("58");  // a full disk, a shutdown
  if (is_of_users_function_ && !is_of_server) return remedy::isolate;
  return remedy::none;
}

int failure::uv_code() const noexcept {
  if (uv_code_ != 0) return uv_code_;
  if (is_of("28") || state_ == "42501") return UV_EACCES;
  if (state_ == "3D000") return UV_ENOENT;
  return 0;
}

}  // namespace tickwheel::durable::postgres
