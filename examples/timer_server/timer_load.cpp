// Clients and a callee of timer_server: checks that each timer that was confirmed is called, and none early.
//
//   timer_load --port 8081 --timers 50000 --outages 2
//
// The clients schedule timers as fast as the server confirms them. They go on when it was killed and started again. Read it from the
// top:
//
//   ledger    what was confirmed and called, and when the server was away
//   client    one connection to the server: a PUT at a time
//   callee    the endpoint that the server calls
//   load      all of it

#include "../command_line.hpp"
#include "../http_framing.hpp"
#include "../listen.hpp"
#include "times.hpp"

#include <tickwheel/tickwheel.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace http = boost::beast::http;
using wall_time = std::chrono::sys_time<std::chrono::nanoseconds>;

struct options {
  int port = 0;
  std::size_t timers = 50'000;
  std::size_t connections = 64;
  std::size_t rate = 0;  // timers scheduled per second; 0: as fast as they are confirmed
  std::chrono::milliseconds shortest = 3s, longest = 15s;  // from a request to its due time
  std::chrono::milliseconds patience = 60s;                // after the last due time
  std::size_t outages = 0;
  std::string points;
};

wall_time now() { return std::chrono::system_clock::now(); }

// --- what has happened -----------------------------------------------------------------------------------------------

struct timer {
  wall_time due{};
  wall_time called_at{};  // first
  std::uint32_t calls = 0;
  bool is_confirmed = false;
};

class ledger {
 public:
  explicit ledger(std::size_t count) : timers(count) {}

  std::string id_of(std::size_t i) const { return run_ + '-' + std::to_string(i); }

  void confirm(std::size_t i) {
    confirmed += !std::exchange(timers[i].is_confirmed, true);
    hear(now());
  }
  /// A connection to the server is gone.
  void lose_server() {
    if (is_away_ || is_over()) return;
    is_away_ = true;
    outages_.emplace_back(now(), wall_time::max());
  }
  void call(std::string_view id) {
    const std::size_t dash = id.rfind('-');
    std::size_t i = 0;
    const auto [end, error] = std::from_chars(id.data() + dash + 1, id.data() + id.size(), i);
    if (error != std::errc{} || i >= timers.size() || id != id_of(i)) return;  // of an earlier run
    timer& t = timers[i];
    const wall_time at = now();
    hear(at);
    if (t.calls++ == 0) {
      t.called_at = at;
      ++called;
      early += at < t.due;
    } else {
      ++repeated;
    }
  }
  bool is_over() const { return confirmed == timers.size() && called == timers.size(); }
  std::size_t outages() const { return outages_.size(); }

  /// Prints the table. Returns true if nothing is wrong.
  bool judge(const options& asked) const {
    std::array<std::vector<double>, 2> late;  // in milliseconds: undisturbed, and disturbed by an outage
    std::size_t lost = 0;
    for (const timer& t : timers) {
      if (t.calls == 0) {
        lost += t.is_confirmed;
        continue;
      }
      late[was_disturbed(t) ? 1 : 0].push_back(std::chrono::duration<double, std::milli>(t.called_at - t.due).count());
    }
    print("confirmed", confirmed);
    print("called", called);
    print("called again, with the same Idempotency-Key", repeated);
    print("outages", outages());
    constexpr std::array names{"lateness", "lateness, due in an outage or just after"};
    for (std::size_t i = 0; i != late.size(); ++i) {
      if (late[i].empty()) continue;
      std::sort(late[i].begin(), late[i].end());
      std::printf("  %-44s p50 %.1f ms, p99 %.1f ms, of %zu\n", names[i], late[i][late[i].size() / 2],
                  late[i][late[i].size() * 99 / 100], late[i].size());
    }
    bool right = print_zero("not confirmed", timers.size() - confirmed);
    right &= print_zero("lost", lost);
    right &= print_zero("early", early);
    if (outages() < asked.outages) {
      std::printf("  WRONG: %zu outages were seen of %zu\n", outages(), asked.outages);
      right = false;
    }
    return right;
  }

  /// Writes a line per timer: when it was due, in seconds since the first, and its lateness in milliseconds.
  bool write_points(const std::string& file) const {
    std::ofstream out{file};
    const auto first =
        std::min_element(timers.begin(), timers.end(), [](const timer& a, const timer& b) { return a.due < b.due; });
    for (const timer& t : timers)
      if (t.calls != 0)
        out << std::chrono::duration<double>(t.due - first->due).count() << ' '
            << std::chrono::duration<double, std::milli>(t.called_at - t.due).count() << '\n';
    return static_cast<bool>(out.flush());
  }

  std::vector<timer> timers;
  std::size_t confirmed = 0, called = 0, repeated = 0, early = 0;

 private:
  static void print(const char* what, std::size_t count) { std::printf("  %-44s %9zu\n", what, count); }
  static bool print_zero(const char* what, std::size_t count) {
    std::printf("  %-44s %9zu  %s\n", what, count, count == 0 ? "right" : "WRONG");
    return count == 0;
  }
  // A server is there again.
  void hear(wall_time at) {
    if (std::exchange(is_away_, false)) outages_.back().second = at;
  }
  bool was_disturbed(const timer& t) const {
    constexpr auto catching_up = 2s;
    return std::any_of(outages_.begin(), outages_.end(), [&](const auto& o) {
      return t.called_at >= o.first && (o.second == wall_time::max() || t.due <= o.second + catching_up);
    });
  }

  const std::string run_ = "load-" + std::to_string(now().time_since_epoch().count());
  std::vector<std::pair<wall_time, wall_time>> outages_;
  bool is_away_ = false;
};

// --- one connection to the server ------------------------------------------------------------------------------------

// All clients share this.
struct context {
  const options& asked;
  ledger& book;
  tickwheel::event_loop& loop;
  std::string callback;
  tickwheel::clock::time_point began{};
  std::size_t next = 0;  // timer
  std::uint64_t state = 0x9E3779B97F4A7C15U;

  /// Returns true if it is time to schedule the next timer.
  bool may_schedule() const {
    const std::chrono::duration<double> passed = tickwheel::clock::now() - began;
    return asked.rate == 0 || static_cast<double>(next) < passed.count() * static_cast<double>(asked.rate);
  }
  std::chrono::nanoseconds limit() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto span = static_cast<std::uint64_t>((asked.longest - asked.shortest).count()) + 1;
    return asked.shortest + std::chrono::milliseconds{static_cast<std::int64_t>((state >> 33U) % span)};
  }
};

class client {
 public:
  explicit client(context& in) : in_{in} {}
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  void connect() noexcept {
    if (is_stopped_) return;
    sockaddr_in at{};
    uv_ip4_addr("127.0.0.1", in_.asked.port, &at);
    uv_tcp_init(&in_.loop.uv(), &socket_);
    socket_.data = this;
    const auto on_connected = [](uv_connect_t* c, int error) {
      auto& self = *static_cast<client*>(c->handle->data);
      if (error == UV_ECANCELED) return;
      if (error != 0) return self.lose();
      uv_tcp_nodelay(&self.socket_, 1);
      uv_read_start(c->handle, give_buffer, on_read);
      self.send();
    };
    is_open_ = true;
    if (uv_tcp_connect(&connecting_, &socket_, reinterpret_cast<const sockaddr*>(&at), on_connected) != 0) lose();
  }
  void stop() noexcept {
    is_stopped_ = true;
    again_.cancel();
    if (std::exchange(is_open_, false)) uv_close(reinterpret_cast<uv_handle_t*>(&socket_), nullptr);
  }

 private:
  // The same timer again if the last request had no answer.
  void send() noexcept {
    if (!timer_) {
      if (in_.next == in_.asked.timers) return;  // the connection stays, to see an outage
      if (!in_.may_schedule()) {
        (void)again_.arm(5ms);
        return;
      }
      timer_ = in_.next++;
      in_.book.timers[*timer_].due = std::chrono::ceil<std::chrono::milliseconds>(now() + in_.limit());
    }
    const std::string body = R"({"due":")" + timer_server::write_moment(in_.book.timers[*timer_].due) +
                             R"(","callback":")" + in_.callback + R"("})";
    request_ = "PUT /v1/timers/" + in_.book.id_of(*timer_) +
               " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body;
    answer_.emplace();
    uv_buf_t buffer = uv_buf_init(request_.data(), static_cast<unsigned>(request_.size()));
    const auto on_written = [](uv_write_t* w, int error) {
      if (error != 0 && error != UV_ECANCELED) static_cast<client*>(w->handle->data)->lose();
    };
    if (uv_write(&write_, reinterpret_cast<uv_stream_t*>(&socket_), &buffer, 1, on_written) != 0) lose();
  }

  static void give_buffer(uv_handle_t* h, std::size_t, uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(h->data);
    *buffer = uv_buf_init(self.buffer_.data(), static_cast<unsigned>(self.buffer_.size()));
  }

  static void on_read(uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) noexcept {
    auto& self = *static_cast<client*>(s->data);
    if (size == 0) return;
    if (size < 0) return self.lose();
    self.kept_.append(buffer->base, static_cast<std::size_t>(size));
    self.take();
  }

  void take() noexcept {
    if (!answer_) return lose();  // nothing was asked
    boost::beast::error_code error;
    answer_->eager(true);
    const std::size_t used = answer_->put(boost::asio::buffer(kept_.data(), kept_.size()), error);
    kept_.erase(0, used);
    if (error == http::error::need_more) return;
    if (error) return lose();
    if (!answer_->is_done()) return;
    const auto status = answer_->get().result_int();
    const bool goes_on = answer_->get().keep_alive();
    answer_.reset();
    // 409: it has been called already, after an answer was lost
    if (status == 201 || status == 200 || status == 409) {
      in_.book.confirm(*timer_);
      timer_.reset();
      return goes_on ? send() : lose();
    }
    (void)again_.arm(50ms);
  }

  void lose() noexcept {
    if (!std::exchange(is_open_, false)) return;
    in_.book.lose_server();
    kept_.clear();
    answer_.reset();
    uv_close(reinterpret_cast<uv_handle_t*>(&socket_),
             [](uv_handle_t* h) { (void)static_cast<client*>(h->data)->again_.arm(50ms); });
  }

  void on_again() noexcept {
    if (is_stopped_) return;
    is_open_ ? send() : connect();
  }

  context& in_;
  tickwheel::member_timer<&client::on_again> again_{in_.loop.timers(), *this};
  uv_tcp_t socket_{};
  uv_connect_t connecting_{};
  uv_write_t write_{};
  bool is_open_ = false, is_stopped_ = false;
  std::optional<std::size_t> timer_;
  std::string request_;
  std::array<char, 4096> buffer_{};
  std::string kept_;
  std::optional<http::response_parser<http::string_body>> answer_;
};

// --- what the server calls -------------------------------------------------------------------------------------------

class callee {
 public:
  callee(tickwheel::event_loop& loop, ledger& book) : loop_{loop}, book_{book} {}

  /// Returns 0 or a UV_ code. Then `port` is known.
  int listen() noexcept {
    sockaddr_in at{};
    uv_ip4_addr("127.0.0.1", 0, &at);
    if (const int error = uv_tcp_init(&loop_.uv(), &listener_)) return error;
    listener_.data = this;
    const auto on_connection = [](uv_stream_t* s, int error) {
      if (error == 0) static_cast<callee*>(s->data)->accept(*s);
    };
    if (const int error = listen_at(listener_, at, on_connection)) return error;
    port = ntohs(at.sin_port);
    return 0;
  }
  void stop() noexcept {
    if (listener_.data == nullptr || is_stopped_) return;
    is_stopped_ = true;
    uv_close(reinterpret_cast<uv_handle_t*>(&listener_), nullptr);
    for (peer* const p : std::vector<peer*>{peers_.begin(), peers_.end()}) p->close();
  }

  int port = 0;

 private:
  class peer final : private http_framing::handler {
   public:
    explicit peer(callee& of) : of_{of}, framing_{{}} {
      uv_tcp_init(&of.loop_.uv(), &socket_);
      socket_.data = this;
    }
    void start(uv_stream_t& listener) noexcept {
      of_.peers_.insert(this);
      if (uv_accept(&listener, stream()) != 0) return close();
      uv_tcp_nodelay(&socket_, 1);
      const auto give = [](uv_handle_t*, std::size_t, uv_buf_t* buffer) {
        static std::array<char, 65'536> shared;
        *buffer = uv_buf_init(shared.data(), shared.size());
      };
      const auto take = [](uv_stream_t* s, ssize_t size, const uv_buf_t* buffer) {
        auto& self = *static_cast<peer*>(s->data);
        if (size < 0) return self.close();
        self.framing_.take({buffer->base, static_cast<std::size_t>(size)}, self);
      };
      if (uv_read_start(stream(), give, take) != 0) close();
    }
    void close() noexcept {
      if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&socket_)) != 0) return;
      of_.peers_.erase(this);
      uv_close(reinterpret_cast<uv_handle_t*>(&socket_), [](uv_handle_t* h) { delete static_cast<peer*>(h->data); });
    }

   private:
    bool on_request(const http_framing::request& r) override {
      const auto id = r["Timer-Id"];
      of_.book_.call({id.data(), id.size()});
      std::string answer = "HTTP/1.1 204 No Content\r\n\r\n";
      uv_buf_t buffer = uv_buf_init(answer.data(), static_cast<unsigned>(answer.size()));
      // a socket takes so little at once, unless its peer is gone
      if (uv_try_write(stream(), &buffer, 1) != static_cast<int>(answer.size())) close();
      return true;
    }
    bool on_expect_continue() override { return true; }
    void on_refused(http_framing::status) override { close(); }
    uv_stream_t* stream() noexcept { return reinterpret_cast<uv_stream_t*>(&socket_); }

    callee& of_;
    http_framing framing_;
    uv_tcp_t socket_{};
  };

  void accept(uv_stream_t& listener) { (new peer{*this})->start(listener); }

  tickwheel::event_loop& loop_;
  ledger& book_;
  uv_tcp_t listener_{};  // its data is set once it is the loop's
  bool is_stopped_ = false;
  std::unordered_set<peer*> peers_;
};

// --- all of it -------------------------------------------------------------------------------------------------------

class load {
 public:
  explicit load(const options& asked) : asked_{asked}, book_{asked.timers} {}
  ~load() { loop_.close(); }

  /// Returns 0 or a UV_ code.
  int run() {
    if (const int error = loop_.open()) return error;
    if (const int error = callee_.listen()) return error;
    context_.callback = "http://127.0.0.1:" + std::to_string(callee_.port) + "/called";
    for (std::size_t i = 0; i != asked_.connections; ++i) clients_.push_back(std::make_unique<client>(context_));
    began_ = context_.began = tickwheel::clock::now();
    if (asked_.rate != 0) longest_run_ += std::chrono::seconds{asked_.timers / asked_.rate};
    for (const auto& c : clients_) c->connect();
    if (const int error = step_.start(20ms)) return error;
    loop_.run();
    return 0;
  }
  /// Returns true if all is right.
  bool judge() const {
    std::printf("timer_load: %zu timers, confirmed at %.0f per second\n", asked_.timers,
                static_cast<double>(asked_.timers) / std::chrono::duration<double>(scheduled_ - began_).count());
    const bool right = book_.judge(asked_);
    std::printf("timer_load: %s\n", right ? "each timer was called, and none early" : "WRONG");
    return right && (asked_.points.empty() || book_.write_points(asked_.points));
  }

 private:
  void step() noexcept {
    const auto time = tickwheel::clock::now();
    if (book_.confirmed != asked_.timers) scheduled_ = time;
    const bool is_late = time > scheduled_ + asked_.longest + asked_.patience || time > began_ + longest_run_;
    if (!book_.is_over() && !is_late) return;
    step_.cancel();
    for (const auto& c : clients_) c->stop();
    callee_.stop();
  }

  const options& asked_;
  ledger book_;
  tickwheel::event_loop loop_;
  callee callee_{loop_, book_};
  context context_{asked_, book_, loop_, {}, {}};
  std::vector<std::unique_ptr<client>> clients_;
  tickwheel::clock::time_point began_{}, scheduled_{};
  std::chrono::seconds longest_run_ = 10min;
  tickwheel::interval_timer<&load::step> step_{loop_.timers(), *this};
};

}  // namespace

int main(int argc, char** argv) {
  options asked;
  CLI::App app{"Clients and a callee of timer_server: checks that each timer is called, and none early.", "timer_load"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--timers", asked.timers, "how many to schedule")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--connections", asked.connections, "of the clients")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--rate", asked.rate, "timers that are scheduled per second; 0: as fast as they are confirmed")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  add_duration(app, "--shortest", asked.shortest, 1s, 1ms,
               "a timer is due after this time at least: seconds, or with a unit [3s]");
  add_duration(app, "--longest", asked.longest, 1s, 1ms, "and after this time at most [15s]");
  app.add_option("--outages", asked.outages, "how often the server is killed, at least")->capture_default_str();
  app.add_option("--points", asked.points, "also write due times and lateness to this file");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (asked.longest < asked.shortest) {
    std::fputs("timer_load: --longest is less than --shortest\n", stderr);
    return exit_bad_usage;
  }
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us
  load all{asked};
  if (const int error = all.run()) {
    std::fprintf(stderr, "timer_load: %s\n", uv_strerror(error));
    return exit_bad_usage;
  }
  return all.judge() ? 0 : 1;
}
