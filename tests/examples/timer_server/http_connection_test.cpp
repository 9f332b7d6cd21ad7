// Connections of the timer server's clients, over real sockets on loopback.
#include "timer_server/http/http_connection.hpp"
#include "timer_server/http/api.hpp"
#include "timer_server/service/listen_address.hpp"

#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/tickwheel.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using namespace timer_server;
namespace durable = tickwheel::durable;

namespace {

constexpr auto longest = 10s;  // a test that waits longer has failed

/// The service's connections and API, on a loop that the test turns.
struct connection_test : testing::Test {
  tickwheel::event_loop loop;
  bool is_drained = false;
  void on_drained() noexcept { is_drained = true; }
  tickwheel::drain<&connection_test::on_drained> drain{loop.timers(), *this};
  std::shared_ptr<durable::memory_database> database = std::make_shared<durable::memory_database>();
  durable::scheduler scheduler{loop.timers(), durable::memory_store(database)};
  api requests{loop.timers(), scheduler, {}};
  connections peers{loop, drain};
  uv_tcp_t listener{};

  void SetUp() override {
    ASSERT_EQ(loop.open(), 0);
    ASSERT_EQ(scheduler.open([](int) noexcept {}), 0);
    turn_until([&] { return scheduler.latest_store_now().has_value(); });
    peers.requests = &requests;
    peers.framing = {.header = 1024, .body = 4096};
    ASSERT_EQ(uv_tcp_init(&loop.uv(), &listener), 0);
    listener.data = this;
    ASSERT_EQ(uv_tcp_bind(&listener, &listen_address::read("127.0.0.1:0")->socket_address(), 0), 0);
    const auto accept = [](uv_stream_t* on, int) {
      http_connection::accept(static_cast<connection_test*>(on->data)->peers, *on);
    };
    ASSERT_EQ(uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 128, accept), 0);
  }

  void TearDown() override {
    uv_close(reinterpret_cast<uv_handle_t*>(&listener), nullptr);
    scheduler.close();
    if (peers.open != 0 && !drain.draining()) (void)drain.start({.hard_stop = 1ms, .spread = 0s, .seed = 0});
    turn_until([&] { return peers.open == 0; });
    EXPECT_EQ(peers.open, 0U);
    loop.close();
  }

  template <class F>
  void turn_until(F&& is_done) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!is_done() && std::chrono::steady_clock::now() < end) loop.run(UV_RUN_NOWAIT);
  }
};

/// A client that reads what comes, while the test's loop turns.
class client {
 public:
  /// `receive_buffer`: of the system, in bytes; 0: as usual.
  explicit client(connection_test& on, int receive_buffer = 0) : on_{on}, socket_{::socket(AF_INET, SOCK_STREAM, 0)} {
    if (receive_buffer != 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const auto at = listen_address::of(on.listener);
    EXPECT_EQ(::connect(socket_, &at->socket_address(), sizeof(sockaddr_in)), 0);
  }
  ~client() { ::close(socket_); }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  client& sends(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN) break;
      look();
    }
    return *this;
  }
  client& sends_no_more() {
    ::shutdown(socket_, SHUT_WR);
    return *this;
  }

  /// The status of each answer, such as "201 404", once there are so many.
  std::string statuses(std::size_t count) {
    on_.turn_until([&] {
      look();
      return is_closed_ || list().size() >= 4 * count - 1;
    });
    return list();
  }
  /// Takes at most so many bytes each `pause`, until the service has closed.
  void reads_slowly(std::size_t most, std::chrono::milliseconds pause) {
    auto next = std::chrono::steady_clock::now();
    on_.turn_until([&] {
      if (std::chrono::steady_clock::now() < next) return false;
      next += pause;
      receive(most);
      return is_closed_;
    });
  }
  bool is_closed() {
    on_.turn_until([&] {
      look();
      return is_closed_;
    });
    return is_closed_;
  }
  const std::string& received() const { return received_; }
  bool says(std::string_view text) const { return received_.find(text) != std::string::npos; }

 private:
  static constexpr std::size_t buffer_size = 65536;

  void look() {
    on_.loop.run(UV_RUN_NOWAIT);
    receive(buffer_size);
  }
  void receive(std::size_t most) {
    std::array<char, buffer_size> buffer{};
    const ssize_t size = ::recv(socket_, buffer.data(), std::min(most, buffer.size()), MSG_DONTWAIT);
    if (size > 0) received_.append(buffer.data(), static_cast<std::size_t>(size));
    if (size == 0 || (size < 0 && errno != EAGAIN)) is_closed_ = true;
  }
  std::string list() const {
    std::string all;
    for (std::size_t at = 0; (at = received_.find("HTTP/1.1 ", at)) != std::string::npos; at += 9)
      all += (all.empty() ? "" : " ") + received_.substr(at + 9, 3);
    return all;
  }

  connection_test& on_;
  int socket_;
  std::string received_;
  bool is_closed_ = false;
};

std::string put(std::string_view id, std::string_view more_headers = "") {
  constexpr std::string_view body = R"({"in":"1h","callback":"http://127.0.0.1:9/"})";
  return "PUT /v1/timers/" + std::string{id} +
         " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string{more_headers} + "\r\n" + std::string{body};
}
constexpr std::string_view alive = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";

TEST_F(connection_test, serves_one_request_after_the_other) {
  client c{*this};
  EXPECT_EQ(c.sends(put("a")).statuses(1), "201");
  EXPECT_EQ(c.sends(put("a")).statuses(2), "201 200");
  EXPECT_EQ(c.sends(alive).statuses(3), "201 200 200");
  EXPECT_TRUE(c.says("alive\n"));
  EXPECT_FALSE(c.says("Connection: close"));
  EXPECT_EQ(peers.open, 1U);
  EXPECT_EQ(peers.answers[2], 3U);
}

TEST_F(connection_test, requests_in_a_row_are_answered_in_order) {
  client c{*this};
  std::string row;
  for (int i = 0; i < 20; ++i) row += put("t" + std::to_string(i)) + std::string{alive};
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += i == 0 ? "201 200" : " 201 200";
  EXPECT_EQ(c.sends(row).statuses(40), expected);
  EXPECT_EQ(database->size(), 20U);
}

TEST_F(connection_test, many_small_requests_at_once_do_not_deepen_the_stack) {
  client c{*this};
  std::string row;
  constexpr std::size_t count = 5000;
  for (std::size_t i = 0; i < count; ++i) row += "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  c.sends(row);
  EXPECT_EQ(c.statuses(count).size(), 4 * count - 1);
}

TEST_F(connection_test, request_that_comes_byte_by_byte_is_answered) {
  client c{*this};
  for (const char byte : put("a")) c.sends({&byte, 1});
  EXPECT_EQ(c.statuses(1), "201");
}

TEST_F(connection_test, bytes_are_bounded_while_an_answer_is_awaited) {
  database->answer_after(durable::store_verb::put, 200ms);
  client c{*this};
  std::string row;
  for (int i = 0; i < 2000; ++i) row += alive;
  c.sends(put("a")).sends(row);
  EXPECT_EQ(c.statuses(2001).substr(0, 11), "201 200 200");
  EXPECT_EQ(c.statuses(2001).size(), 4U * 2001 - 1);
}

TEST_F(connection_test, head_has_no_body) {
  client c{*this};
  EXPECT_EQ(c.sends("HEAD /healthz HTTP/1.1\r\nHost: h\r\n\r\n").statuses(1), "200");
  EXPECT_EQ(c.received(), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n");
}

TEST_F(connection_test, no_content_has_no_length) {
  client c{*this};
  c.sends(put("a")).statuses(1);
  c.sends("DELETE /v1/timers/a HTTP/1.1\r\nHost: h\r\n\r\n").statuses(2);
  EXPECT_TRUE(c.says("HTTP/1.1 204 No Content\r\n\r\n")) << c.received();
  EXPECT_EQ(c.sends(alive).statuses(3), "201 204 200");
}

TEST_F(connection_test, closes_when_the_client_wants_it) {
  client c{*this};
  c.sends(put("a", "Connection: close\r\n"));
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(1), "201");
  EXPECT_TRUE(c.says("Connection: close\r\n"));
}

TEST_F(connection_test, client_that_sends_no_more_gets_its_answers) {
  client c{*this};
  c.sends(put("a") + put("b")).sends_no_more();
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(2), "201 201");
}

TEST_F(connection_test, half_a_request_is_refused_at_its_end) {
  client c{*this};
  c.sends(put("a") + "GET /healthz HT").sends_no_more();
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(2), "201 400");
  EXPECT_TRUE(c.says("application/problem+json"));
}

TEST_F(connection_test, client_that_goes_away_leaves_its_timer_scheduled) {
  database->answer_after(durable::store_verb::put, 50ms);
  {
    client c{*this};
    c.sends(put("a"));
    turn_until([&] { return database->open_calls(durable::store_verb::put) != 0; });
  }
  turn_until([&] { return peers.open == 0 && database->open_calls(durable::store_verb::put) == 0; });
  EXPECT_EQ(peers.open, 0U);
  EXPECT_EQ(database->size(), 1U);
}

TEST_F(connection_test, bad_requests_get_a_problem_document_and_the_end) {
  const std::string fields(2000, 'x');
  const std::string head = "PUT /v1/timers/a HTTP/1.1\r\nHost: h\r\n";
  for (const auto& [bytes, status] : {std::pair<std::string, std::string>{"\x16\x03\x01", "400"},
                                      {"GET / HTTP/1.1\r\nHost: h\r\nX: " + fields + "\r\n\r\n", "431"},
                                      {head + "Content-Length: 4097\r\n\r\n", "413"},
                                      {head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
                                      {head + "Transfer-Encoding: gzip\r\n\r\n", "501"},
                                      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"}}) {
    client c{*this};
    c.sends(bytes);
    EXPECT_EQ(c.statuses(1), status);
    EXPECT_TRUE(c.says("application/problem+json")) << status;
    EXPECT_TRUE(c.says("Connection: close\r\n")) << status;
    EXPECT_TRUE(c.is_closed()) << status;
  }
}

TEST_F(connection_test, client_may_wait_to_be_told_to_go_on) {
  client c{*this};
  const std::string request = put("a", "Expect: 100-continue\r\n");
  const std::size_t end_of_header = request.find("\r\n\r\n") + 4;
  EXPECT_EQ(c.sends(request.substr(0, end_of_header)).statuses(1), "100");
  EXPECT_EQ(c.sends(request.substr(end_of_header)).statuses(2), "100 201");
}

TEST_F(connection_test, two_authorizations_count_as_none) {
  bearer_tokens tokens{{}};
  ASSERT_EQ(tokens.read("0123456789abcdef"), "");
  api guarded{loop.timers(), scheduler, {.tokens = &tokens}};
  peers.requests = &guarded;
  client c{*this};
  const std::string one = "Authorization: Bearer 0123456789abcdef\r\n";
  EXPECT_EQ(c.sends(put("a", one + one)).statuses(1), "401");
  EXPECT_TRUE(c.says("WWW-Authenticate: Bearer\r\n"));
  EXPECT_EQ(c.sends(put("a", one)).statuses(2), "401 201");
  EXPECT_EQ(c.sends("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").statuses(3), "401 201 401");
}

TEST_F(connection_test, fields_after_a_body_in_chunks_are_no_header) {
  bearer_tokens tokens{{}};
  ASSERT_EQ(tokens.read("0123456789abcdef"), "");
  api guarded{loop.timers(), scheduler, {.tokens = &tokens}};
  peers.requests = &guarded;
  client c{*this};
  const std::string token = "Authorization: Bearer 0123456789abcdef\r\n";
  const auto get = [](const std::string& header, const std::string& trailer) {
    return "GET /metrics HTTP/1.1\r\nHost: h\r\n" + header + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + trailer +
           "\r\n";
  };
  EXPECT_EQ(c.sends(get("", token)).statuses(1), "401");
  EXPECT_EQ(c.sends(get(token, token)).statuses(2), "401 200");
  EXPECT_EQ(c.sends(get(token, "Connection: close\r\n")).statuses(3), "401 200 200");
  EXPECT_EQ(c.sends(get(token, "")).statuses(4), "401 200 200 200");
}

TEST_F(connection_test, origin_tells_a_web_page) {
  api guarded{loop.timers(), scheduler, {.refuses_web_pages = true}};
  peers.requests = &guarded;
  client c{*this};
  const std::string revive = "POST /v1/timers/a/revive HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  EXPECT_EQ(c.sends(revive + "\r\n").statuses(1), "404");
  EXPECT_EQ(c.sends(revive + "Origin: null\r\n\r\n").statuses(2), "404 403");
  EXPECT_EQ(c.sends(revive + "Origin:\r\n\r\n").statuses(3), "404 403 403") << "an empty one";
}

TEST_F(connection_test, empty_content_type_is_no_json) {
  client c{*this};
  const auto put = [](const std::string& header) {
    const std::string document = R"({"in":"1h","callback":"http://127.0.0.1:9/"})";
    return "PUT /v1/timers/a HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header +
           "Content-Length: " + std::to_string(document.size()) + "\r\n\r\n" + document;
  };
  EXPECT_EQ(c.sends(put("Content-Type:\r\n")).statuses(1), "415");
  EXPECT_EQ(c.sends(put("")).statuses(2), "415 201");
}

// An empty one must not hide the other.
TEST_F(connection_test, repeated_origin_or_content_type_is_a_bad_request) {
  api guarded{loop.timers(), scheduler, {.refuses_web_pages = true}};
  peers.requests = &guarded;
  client c{*this};
  const std::string revive = "POST /v1/timers/a/revive HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  EXPECT_EQ(c.sends(revive + "Origin:\r\nOrigin: http://evil.example\r\n\r\n").statuses(1), "400");
  EXPECT_TRUE(c.says("application/problem+json"));
  EXPECT_EQ(c.sends(revive + "Content-Type:\r\nContent-Type: text/plain\r\n\r\n").statuses(2), "400 400");
  EXPECT_EQ(c.sends(revive + "\r\n").statuses(3), "400 400 404");
}

TEST_F(connection_test, target_is_a_whole_url) {
  api guarded{loop.timers(), scheduler, {.refuses_web_pages = true}};
  peers.requests = &guarded;
  client c{*this};
  const auto get = [](const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"; };
  std::string row, expected;
  for (const auto& [target, status] : {std::pair{"http://127.0.0.1:80/v1/timers?state=dead", "200"},
                                       {"HTTP://localhost/healthz", "200"},
                                       {"http://user@[::1]/v1/timers?state=dead", "200"},
                                       {"/healthz?see=http://elsewhere/", "200"},
                                       {"http://elsewhere/v1/timers", "421"},
                                       {"http://127.0.0.1:80@elsewhere/v1/timers", "421"},
                                       {"http://127.0.0.1", "404"},
                                       {"http://127.0.0.1?/v1/timers", "404"}}) {
    row += get(target);
    expected += (expected.empty() ? "" : " ") + std::string{status};
  }
  EXPECT_EQ(c.sends(row).statuses(8), expected);
}

TEST_F(connection_test, slow_request_is_cut) {
  peers.phases.header = 50ms;
  client c{*this};
  c.sends("GET /healthz HT");
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(1), "408");
  EXPECT_EQ(peers.cut_header, 1U);
}

TEST_F(connection_test, slow_body_is_cut) {
  peers.phases.body = 50ms;
  client c{*this};
  c.sends("PUT /v1/timers/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(1), "408");
  EXPECT_EQ(peers.cut_body, 1U);
}

TEST_F(connection_test, idle_connection_is_cut) {
  peers.phases.keep_alive = 50ms;
  client c{*this};
  EXPECT_EQ(c.sends(alive).statuses(1), "200");
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(peers.cut_keep_alive, 1U);
}

TEST_F(connection_test, awaited_answer_has_no_phase_limit) {
  peers.phases = {.header = 50ms, .body = 50ms, .keep_alive = 50ms};
  database->answer_after(durable::store_verb::put, 300ms);
  client c{*this};
  EXPECT_EQ(c.sends(put("a")).statuses(1), "201");
}

TEST_F(connection_test, connection_beyond_the_limit_is_turned_away) {
  peers.most = 1;
  client first{*this};
  EXPECT_EQ(first.sends(alive).statuses(1), "200");
  client second{*this};
  EXPECT_TRUE(second.is_closed());
  EXPECT_EQ(peers.turned_away, 1U);
  EXPECT_EQ(first.sends(alive).statuses(2), "200 200");
}

TEST_F(connection_test, drain_answers_what_has_begun) {
  database->answer_after(durable::store_verb::put, 100ms);
  client idle{*this};
  client busy{*this};
  EXPECT_EQ(idle.sends(alive).statuses(1), "200");
  busy.sends(put("a"));
  turn_until([&] { return database->open_calls(durable::store_verb::put) != 0; });
  ASSERT_EQ(drain.start({.hard_stop = longest, .spread = 0s, .seed = 0}), 0);
  EXPECT_TRUE(idle.is_closed());
  EXPECT_EQ(busy.statuses(1), "201");
  EXPECT_TRUE(busy.says("Connection: close\r\n"));
  EXPECT_TRUE(busy.is_closed());
  turn_until([&] { return is_drained; });
  EXPECT_TRUE(is_drained);
}

TEST_F(connection_test, body_below_the_least_rate_is_cut) {
  peers.rate = {.bytes_per_second = 1000, .grace = 100ms, .interval = 50ms};
  client c{*this};
  c.sends("PUT /v1/timers/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  EXPECT_TRUE(c.is_closed());
  EXPECT_EQ(c.statuses(1), "408");
  EXPECT_EQ(peers.cut_rate, 1U);
}

/// A page of a list, and clients whose system takes only a little of it at once.
struct large_answer_test : connection_test {
  static constexpr std::string_view asked =
      "GET /v1/timers?state=pending&limit=1000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  static constexpr int small_buffer = 16384;

  void SetUp() override {
    connection_test::SetUp();
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(scheduler.schedule({.id = std::string(200, 'i') + std::to_string(i), .due = database->now() + 1h},
                                   [](auto) noexcept {}),
                0);
    turn_until([&] { return database->size() == 1000; });
  }

  /// The service's sockets also have this buffer.
  void take_small_buffers() {
    int size = small_buffer;
    ASSERT_EQ(uv_send_buffer_size(reinterpret_cast<uv_handle_t*>(&listener), &size), 0);
  }

  static void expect_whole(const client& c) {
    const std::size_t body = c.received().find("\r\n\r\n") + 4;
    EXPECT_TRUE(c.says("Content-Length: " + std::to_string(c.received().size() - body) + "\r\n"));
    EXPECT_GT(c.received().size(), 200'000U);
  }
};

TEST_F(large_answer_test, is_written_whole) {
  client c{*this};
  c.sends(asked);
  EXPECT_TRUE(c.is_closed());
  expect_whole(c);
}

TEST_F(large_answer_test, steady_client_gets_all_however_long_it_takes) {
  take_small_buffers();
  peers.rate = {.bytes_per_second = 10'000, .grace = 300ms, .interval = 50ms};
  client c{*this, small_buffer};
  c.sends(asked);
  const auto begin = std::chrono::steady_clock::now();
  c.reads_slowly(4096, 10ms);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, peers.rate.grace);
  expect_whole(c);
  EXPECT_EQ(peers.cut_rate, 0U);
}

TEST_F(large_answer_test, client_that_reads_nothing_is_cut) {
  take_small_buffers();
  peers.rate = {.bytes_per_second = 1000, .grace = 100ms, .interval = 50ms};
  client c{*this, small_buffer};
  c.sends(asked);
  turn_until([&] { return peers.open == 0 && peers.accepted == 1; });
  EXPECT_EQ(peers.cut_rate, 1U);
}

TEST_F(large_answer_test, client_that_reads_below_the_least_rate_is_cut) {
  take_small_buffers();
  peers.rate = {.bytes_per_second = 10'000, .grace = 100ms, .interval = 50ms};
  client c{*this, small_buffer};
  c.sends(asked);
  c.reads_slowly(1, 10ms);
  EXPECT_EQ(peers.cut_rate, 1U);
  EXPECT_LT(c.received().size(), 200'000U) << "the system does not go on to offer what it had taken";
}

TEST_F(large_answer_test, next_request_waits_until_it_is_taken) {
  take_small_buffers();
  client c{*this, small_buffer};
  const std::string row = "GET /v1/timers?state=pending&limit=1000 HTTP/1.1\r\nHost: h\r\n\r\n";
  c.sends(row + row + row);
  EXPECT_EQ(c.statuses(3), "200 200 200");
  EXPECT_EQ(peers.open, 1U);
}

}  // namespace
