// openapi.json says what the server does: each operation is asked for, and each answer is one that the document has.
#include "timer_server/http/api.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/testing.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using namespace timer_server;
using nlohmann::json;
namespace durable = tickwheel::durable;

namespace {

const json& openapi() {
  static const json document = [] {
    std::ifstream in{OPENAPI};
    return json::parse(in, nullptr, false);
  }();
  return document;
}

/// Returns the part of the document that is meant: itself, or what it refers to.
const json& resolved(const json& part) {
  const auto reference = part.find("$ref");
  return reference == part.end() ? part : openapi().at(json::json_pointer{reference->get<std::string>().substr(1)});
}

/// Returns what is wrong with `value`; empty: nothing. Knows the keywords that the document uses.
std::string mismatch(const json& value, const json& given, const std::string& where) {
  const json& schema = resolved(given);
  const std::string type = schema.value("type", "");
  const bool fits = type == "object"    ? value.is_object()
                    : type == "array"   ? value.is_array()
                    : type == "string"  ? value.is_string()
                    : type == "integer" ? value.is_number_integer()
                    : type == "boolean" ? value.is_boolean()
                                        : false;
  if (!fits) return where + " is no " + type + ": " + value.dump();
  if (const auto allowed = schema.find("enum"); allowed != schema.end())
    if (std::find(allowed->begin(), allowed->end(), value) == allowed->end())
      return where + " has no such value: " + value.dump();
  if (value.is_array()) {
    for (const json& item : value)
      if (auto wrong = mismatch(item, schema["items"], where + "[]"); !wrong.empty()) return wrong;
  }
  if (!value.is_object()) return {};
  for (const json& name : schema.value("required", json::array()))
    if (!value.contains(name.get<std::string>())) return where + " has no " + name.get<std::string>();
  for (const auto& [name, member] : value.items()) {
    const auto& properties = schema.at("properties");
    if (!properties.contains(name)) return where + " has a member that is not described: " + name;
    if (auto wrong = mismatch(member, properties[name], where + '.' + name); !wrong.empty()) return wrong;
  }
  return {};
}

struct openapi_test : testing::Test {
  tickwheel::manual_service manual;
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  bearer_tokens tokens{{.per_second = 1, .burst = 1000}};
  durable::scheduler scheduler{manual.timers, durable::memory_store(database)};
  std::optional<durable::execution> running;
  std::set<std::string> statuses;  // that were seen, such as "get /v1/timers/{id} 200"
  std::optional<api> requests;
  std::string host;  // of the requests
  std::optional<std::string> origin;

  void SetUp() override {
    ASSERT_EQ(tokens.read("0123456789abcdef"), "");
    scheduler.on_due([this](durable::execution run) noexcept {
      if (run.id() == "dead") return run.bury("the callee answered 404");
      if (run.id() == "finished") return run.done();
      running = std::move(run);
    });
    ASSERT_EQ(scheduler.open([](int) noexcept {}), 0);
    manual.advance(1s);
    requests.emplace(manual.timers, scheduler, api_options{.max_payload = 4096, .tokens = &tokens});
  }

  /// Asks, and checks the answer against the operation of `path`, such as "/v1/timers/{id}".
  void ask(const std::string& method, const std::string& path, const std::string& target, std::string_view body = "",
           bool with_token = true, std::string_view type = "application/json") {
    std::string upper = method;
    for (char& c : upper) c = static_cast<char>(c - 'a' + 'A');
    std::optional<http_answer> answer;
    requests->ask({.method = upper,
                   .target = target,
                   .host = host,
                   .origin = origin,
                   .content_type = type,
                   .authorization = with_token ? "Bearer 0123456789abcdef" : "",
                   .body = body},
                  [&](http_answer a) { answer = std::move(a); });
    for (int i = 0; i < 100 && !answer; ++i) manual.advance(100ms);
    ASSERT_TRUE(answer) << upper << ' ' << target;

    const std::string status = std::to_string(answer->status);
    const std::string name = method + ' ' + path + ' ' + status;
    const json& operation = openapi().at("paths").at(path).at(method);
    ASSERT_TRUE(operation["responses"].contains(status)) << name << " is not described";
    statuses.insert(name);
    const json& described = resolved(operation["responses"][status]);
    ASSERT_EQ(described.contains("content"), !answer->content_type.empty()) << name;
    EXPECT_EQ(answer->retry_after.count() != 0,
              described.contains("headers") && described["headers"].contains("Retry-After"))
        << name;
    if (answer->content_type.empty()) return;
    const std::string media = answer->content_type.substr(0, answer->content_type.find(';'));
    ASSERT_TRUE(described["content"].contains(media)) << name << ": " << media;
    if (media == "text/plain") return;
    EXPECT_EQ(mismatch(json::parse(answer->body, nullptr, false), described["content"][media]["schema"], name), "")
        << answer->body;
  }
};

TEST_F(openapi_test, each_answer_is_described_and_each_description_is_answered) {
  ASSERT_TRUE(openapi().is_object());
  const std::string timer = "/v1/timers/{id}";
  const std::string revive = "/v1/timers/{id}/revive";
  const std::string list = "/v1/timers";
  constexpr std::string_view later =
      R"({"in":"1h","callback":"http://127.0.0.1:9/","method":"PUT","headers":{"X":"y"},"body":"z","every":"P1D"})";
  constexpr std::string_view now = R"({"in":"0s","callback":"http://127.0.0.1:9/"})";
  constexpr std::string_view past = R"({"due":"2020-01-01T00:00:00Z","callback":"http://127.0.0.1:9/"})";

  ask("put", timer, "/v1/timers/a", later);
  ask("put", timer, "/v1/timers/a", later);
  ask("put", timer, "/v1/timers/a", R"({"in":"1h","callback":"http://127.0.0.1:9/","on_conflict":"replace"})");
  for (const auto* const id : {"dead", "finished", "running"}) ask("put", timer, std::string{"/v1/timers/"} + id, now);
  manual.advance(2s);
  ask("put", timer, "/v1/timers/dead", later);
  ask("put", timer, "/v1/timers/b", "{}");
  ask("put", timer, "/v1/timers/b", "{");
  ask("put", timer, "/v1/timers/b?strict", past);
  ask("put", timer, "/v1/timers/b", later, true, "text/plain");
  ask("put", timer, "/v1/timers/b",
      R"({"in":"1h","callback":"http://127.0.0.1:9/","body":")" + std::string(5000, 'x') + "\"}");
  for (const auto* const id : {"a", "dead", "finished", "running", "none", "%00"})
    ask("get", timer, std::string{"/v1/timers/"} + id);
  for (const auto* const id : {"a", "finished", "running", "none", "%00"})
    ask("delete", timer, std::string{"/v1/timers/"} + id);
  for (const auto* const state : {"pending", "running", "dead", "finished", "cancelled", "none"})
    ask("get", list, std::string{"/v1/timers?limit=1&state="} + state);
  for (const auto* const id : {"dead", "running", "none", "%00"})
    ask("post", revive, std::string{"/v1/timers/"} + id + "/revive");
  ask("get", "/metrics", "/metrics");
  ask("get", "/healthz", "/healthz", "", false);
  ask("get", "/readyz", "/readyz", "", false);

  const std::pair<std::string, std::string> changing[] = {{"put", timer}, {"delete", timer}, {"post", revive}};
  for (const auto verb : {durable::store_verb::put, durable::store_verb::cancel, durable::store_verb::revive})
    database->fail_next(verb, durable::memory_fault::unknown_done);
  for (const auto& [method, path] : changing) ask(method, path, "/v1/timers/x" + path.substr(timer.size()), later);
  database->outage(true);
  for (const auto& [method, path] : changing) ask(method, path, "/v1/timers/x" + path.substr(timer.size()), later);
  ask("get", timer, "/v1/timers/x");
  ask("get", list, "/v1/timers?state=dead");
  manual.advance(2s);
  ask("get", "/readyz", "/readyz", "", false);
  database->outage(false);

  const auto guarded = [&](bool with_token) {
    for (const auto& [method, path] : changing)
      ask(method, path, "/v1/timers/x" + path.substr(timer.size()), later, with_token);
    ask("get", timer, "/v1/timers/x", "", with_token);
    ask("get", list, "/v1/timers?state=dead", "", with_token);
    ask("get", "/metrics", "/metrics", "", with_token);
  };
  guarded(false);
  while (tokens.admit("Bearer 0123456789abcdef", manual.timers.now()).what == bearer_tokens::verdict::admitted) {
  }
  guarded(true);

  requests.emplace(manual.timers, scheduler, api_options{.refuses_web_pages = true});
  guarded(true);
  host = "127.0.0.1";
  origin = "http://evil.example";
  guarded(true);

  for (const auto& [path, methods] : openapi()["paths"].items())
    for (const auto& [method, operation] : methods.items())
      for (const auto& [status, response] : operation["responses"].items())
        EXPECT_TRUE(status == "default" || statuses.count(method + ' ' + path + ' ' + status) == 1)
            << method << ' ' << path << ' ' << status << " was not answered";
}

// clients/hostile_test.py asks for each of the answers that it lists.
TEST_F(openapi_test, each_operation_has_the_answers_of_the_connection) {
  for (const auto& [path, methods] : openapi()["paths"].items())
    for (const auto& [method, operation] : methods.items())
      EXPECT_EQ(operation["responses"]["default"]["$ref"], "#/components/responses/refused") << method << ' ' << path;
}

TEST_F(openapi_test, methods_are_those_of_the_document) {
  for (const auto& [path, methods] : openapi()["paths"].items()) {
    std::string target = path;
    if (const std::size_t at = target.find("{id}"); at != std::string::npos) target.replace(at, 4, "x");
    std::optional<http_answer> answer;
    requests->ask({.method = "BREW", .target = target, .authorization = "Bearer 0123456789abcdef"},
                  [&](http_answer a) { answer = std::move(a); });
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 405U);
    std::set<std::string> described;
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      for (char& c : upper) c = static_cast<char>(c - 'a' + 'A');
      described.insert(upper);
      if (upper == "GET") described.insert("HEAD");
    }
    std::set<std::string> allowed;
    for (std::string_view rest = answer->allow; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      allowed.emplace(one);
      rest.remove_prefix(std::min(one.size() + 2, rest.size()));
    }
    EXPECT_EQ(allowed, described) << path;
  }
}

TEST_F(openapi_test, fields_of_a_request_are_those_of_the_document) {
  const json& properties = openapi()["components"]["schemas"]["timer_request"]["properties"];
  const json whole{{"in", "1h"},           {"callback", "http://127.0.0.1:9/"},
                   {"method", "PUT"},      {"headers", json::object()},
                   {"body", "text"},       {"every", "P1D"},
                   {"on_conflict", "keep"}};
  for (const auto& [name, value] : whole.items()) EXPECT_TRUE(properties.contains(name)) << name;
  EXPECT_EQ(properties.size(), whole.size() + 1) << "and due";
  ask("put", "/v1/timers/{id}", "/v1/timers/whole", whole.dump());
  EXPECT_EQ(statuses.count("put /v1/timers/{id} 201"), 1U);
}

}  // namespace
