// A shop for order_timeouts, which it judges: is each order that is not paid cancelled, on time, and once?
//
//   order_timeouts --port 7003 --file orders.db &
//   order_timeouts_load --port 7003 --orders 100000 --restarts 3
//
// Orders are placed at a steady rate. Each has a time limit, and half of them are paid in time, or just too late. Meanwhile somebody
// may kill the server and start it again: the shop connects again, and repeats what was not answered. Read it from the top:
//
//   order     what the shop knows of one order: places it, pays it, is told to cancel it
//   link      the connection, and which request waits for which answer
//   shop      places orders, ends, judges
//
// It ends with a table of figures and a verdict:
//
//   exit code 0   every figure that must be zero is zero
//             1   some figure is wrong, or the server was not there
//             2   asked for something impossible

#include "command_line.hpp"
#include "order_timeouts_protocol.hpp"
#include "order_timeouts_stream.hpp"

#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::system_clock;

struct options {
  int port = 0;
  unsigned orders = 100'000;
  unsigned rate = 5'000;
  unsigned window = 4'000;
  milliseconds shortest_limit = 2s;
  milliseconds longest_limit = 8s;
  unsigned paid_percent = 50;
  unsigned restarts = 0;
  milliseconds on_time = 1s;
  milliseconds margin = 10s;
};

struct figures {
  std::uint64_t confirmed = 0, paid = 0, cancelled = 0;
  std::uint64_t too_late = 0;                  // of the cancelled: first heard when they were to be paid
  std::uint64_t not_on_time = 0;               // of the cancelled
  std::uint64_t started_again = 0;             // told to cancel by another start than the first
  std::uint64_t told_again = 0;                // told to cancel once more, with the same due time
  std::vector<nanoseconds> late;               // of orders that expired while the server was there
  std::vector<nanoseconds> late_after_outage;  // of the others, counted from the end of the outage

  // must be zero
  std::uint64_t lost = 0;             // neither paid nor cancelled in the end, or not known to the server
  std::uint64_t early = 0;            // told to cancel before the due time
  std::uint64_t cancelled_twice = 0;  // told to cancel with another due time
  std::uint64_t paid_and_cancelled = 0;
};

class order;
class link;

// State that the orders and the connection share.
struct shop_context {
  explicit shop_context(const options& o) : asked{o} {}

  milliseconds draw_from(milliseconds least, milliseconds most) {
    return milliseconds{std::uniform_int_distribution{least.count(), most.count()}(random)};
  }

  order* find(std::uint64_t number) noexcept;

  const options& asked;
  tickwheel::event_loop loop;
  figures counted;
  std::deque<order> orders;  // a deque, because an order holds timers and cannot move
  std::uint64_t first_number = static_cast<std::uint64_t>(to_wire(system_clock::now()));  // no other run has the same
  std::uint64_t open_orders = 0;                                                          // neither paid nor cancelled
  system_clock::time_point connected_at{};  // the beginning of the present connection
  unsigned connections = 0;
  std::mt19937 random;
};

// --- one order -------------------------------------------------------------------------------------------------------

class order : public tickwheel::pending_call {
 public:
  order(shop_context& on, link& over, std::uint64_t number);

  void place() noexcept;
  void on_answer(order_news) noexcept;
  /// No answer came, because the connection was lost.
  void on_failed(int error) noexcept;
  void on_told_to_cancel(const order_message&) noexcept;
  /// Asks nothing more.
  void stop() noexcept { next_.cancel(); }

 private:
  enum class stage { placing, placed, paying, paid, cancelled };

  void ask() noexcept;
  void confirm() noexcept;
  void plan_payment() noexcept;
  void end(stage how) noexcept;

  shop_context& on_;
  link& link_;
  const std::uint64_t number_;
  system_clock::time_point due_{};
  stage stage_ = stage::placing;
  bool is_confirmed_ = false;
  bool is_told_ = false;                       // to cancel it
  tickwheel::member_timer<&order::ask> next_;  // to repeat the request, or to pay
};

// --- the connection --------------------------------------------------------------------------------------------------

class link {
 public:
  explicit link(shop_context& on) : on_{on} {}

  /// 0 or a UV_ code.
  int open() noexcept {
    if (const int error = uv_ip4_addr("127.0.0.1", on_.asked.port, &server_)) return error;
    if (const int error = waiting_.open(on_.asked.window)) return error;
    connect();
    return 0;
  }

  /// Sends a request of `o`, which waits for the answer. False if that has to wait: as many requests wait as may, or there is no
  /// connection.
  bool ask(order& o, const order_request& r) noexcept {
    if (!stream_.is_connected()) return false;
    if (waiting_.start(o, r.order, tickwheel::deadline::never()) != 0) return false;
    stream_.write(r);
    return true;
  }

  bool has_room() const noexcept { return stream_.is_connected() && waiting_.pending() < waiting_.capacity(); }

  void on_connected() noexcept {
    ++on_.connections;
    on_.connected_at = system_clock::now();
  }

  void on_message(const order_message& m) noexcept {
    if (m.news != order_news::cancel) {
      if (auto* const o = waiting_.complete(m.order)) o->on_answer(m.news);
    } else {
      stream_.write({m.order, 0, order_verb::acknowledge});
      if (auto* const o = on_.find(m.order)) o->on_told_to_cancel(m);  // none: it is from an earlier run
    }
  }

  void on_closed() noexcept {
    waiting_.fail_all(UV_ECONNRESET);
    if (!closing_) (void)reconnect_.arm(50ms);  // cannot fail: the service is open, and has no limit
  }

  /// For good.
  void close() noexcept {
    closing_ = true;
    reconnect_.cancel();
    stream_.close();
  }

 private:
  void connect() noexcept { stream_.connect(on_.loop.uv(), server_); }

  shop_context& on_;
  sockaddr_in server_{};
  bool closing_ = false;
  message_stream<order_message, order_request, link> stream_{*this};
  tickwheel::pending_calls<&order::on_failed> waiting_;
  tickwheel::member_timer<&link::connect> reconnect_{on_.loop.timers(), *this};
};

order* shop_context::find(std::uint64_t number) noexcept {
  const std::uint64_t index = number - first_number;
  return index < orders.size() ? &orders[index] : nullptr;
}

// --- how an order goes -----------------------------------------------------------------------------------------------

order::order(shop_context& on, link& over, std::uint64_t number)
    : pending_call{on.loop.timers()}, on_{on}, link_{over}, number_{number}, next_{on.loop.timers(), *this} {}

// The shop decides when the order is due, so that a repeated request is the same request.
void order::place() noexcept {
  ++on_.open_orders;
  due_ = system_clock::now() + on_.draw_from(on_.asked.shortest_limit, on_.asked.longest_limit);
  ask();
}

// Places it or pays it, whichever is next. May be repeated until there is an answer.
void order::ask() noexcept {
  if (stage_ == stage::placed) stage_ = stage::paying;
  const order_verb verb = stage_ == stage::placing ? order_verb::place : order_verb::pay;
  if (!link_.ask(*this, {number_, to_wire(due_), verb})) on_failed(UV_EAGAIN);
}

void order::on_failed(int) noexcept {
  if (is_told_) return end(stage::cancelled);
  (void)next_.arm(on_.draw_from(20ms, 100ms));  // cannot fail: the service is open, and has no limit
}

void order::on_answer(order_news news) noexcept {
  switch (news) {
    case order_news::placed:
      confirm();
      return is_told_ ? end(stage::cancelled) : plan_payment();
    case order_news::paid:
      if (is_told_) ++on_.counted.paid_and_cancelled;
      ++on_.counted.paid;
      return end(stage::paid);
    case order_news::too_late:
      if (!is_told_) {
        ++on_.counted.cancelled;
        ++on_.counted.too_late;
      }
      return end(stage::cancelled);
    case order_news::unknown:
      ++on_.counted.lost;
      return end(stage::cancelled);
    default:
      return on_failed(UV_EAGAIN);
  }
}

void order::confirm() noexcept {
  if (!std::exchange(is_confirmed_, true)) ++on_.counted.confirmed;
}

void order::plan_payment() noexcept {
  stage_ = stage::placed;
  if (on_.random() % 100 >= on_.asked.paid_percent) return;
  const auto left = std::chrono::duration_cast<milliseconds>(due_ - system_clock::now());
  (void)next_.arm(on_.draw_from(0ms, std::max(left, 0ms)));  // as above
}

void order::on_told_to_cancel(const order_message& m) noexcept {
  const auto now = system_clock::now();
  figures& f = on_.counted;
  if (m.attempt > 1) ++f.started_again;
  if (now < due_) ++f.early;
  if (stage_ == stage::paid) ++f.paid_and_cancelled;
  if (from_wire(m.due_ns) != due_) ++f.cancelled_twice;
  if (is_told_) {
    ++f.told_again;  // the same order and due time: nothing is cancelled twice
    return;
  }
  is_told_ = true;
  confirm();
  if (stage_ == stage::paid || stage_ == stage::cancelled) return;
  ++f.cancelled;
  const bool was_there = due_ >= on_.connected_at;
  const nanoseconds late = now - std::max(due_, on_.connected_at);
  (was_there ? f.late : f.late_after_outage).push_back(late);
  if (late > on_.asked.on_time) ++f.not_on_time;
  if (!pending()) end(stage::cancelled);  // otherwise its answer comes first
}

void order::end(stage how) noexcept {
  if (stage_ == stage::paid || stage_ == stage::cancelled) return;
  stage_ = how;
  next_.cancel();
  --on_.open_orders;
}

// --- all of it -------------------------------------------------------------------------------------------------------

class shop {
 public:
  explicit shop(const options& asked) : context_{asked} {}
  ~shop() { end(); }

  /// Runs to the end, which comes whatever the server does. 0 or a UV_ code.
  int run() {
    if (const int error = context_.loop.open()) return error;
    if (const int error = link_.open()) return error;
    if (const int error = step_timer_.start(1ms)) return error;
    begun_at_ = tickwheel::clock::now();
    context_.loop.run();
    end();
    return 0;
  }

  /// Prints the figures; true when they are right. Requires: it has run.
  bool judge() {
    const options& asked = context_.asked;
    figures& f = context_.counted;
    const std::uint64_t unconfirmed = asked.orders - f.confirmed;
    const std::uint64_t lost = f.lost + context_.open_orders;
    const bool all_restarts_seen = context_.connections > asked.restarts;

    std::printf("order_timeouts_load: %u orders, %u connections\n", asked.orders, context_.connections);
    print("confirmed", f.confirmed);
    print("paid", f.paid);
    print("cancelled", f.cancelled);
    print("  of these within " + std::to_string(asked.on_time.count()) + " ms", f.cancelled - f.not_on_time);
    print("  of these found when they were to be paid", f.too_late);
    print_lateness("lateness while the server was there", f.late);
    print_lateness("lateness after an outage, from its end", f.late_after_outage);
    print("started again after a kill", f.started_again);
    print("  of these recognised by (order, due time)", f.told_again);
    bool right = print_zero("not confirmed", unconfirmed);
    right &= print_zero("lost", lost);
    right &= print_zero("cancelled early", f.early);
    right &= print_zero("cancelled twice", f.cancelled_twice);
    right &= print_zero("cancelled after the payment was confirmed", f.paid_and_cancelled);
    if (!all_restarts_seen) std::printf("WRONG: the server was to be restarted %u times\n", asked.restarts);
    right &= all_restarts_seen;
    std::printf("order_timeouts_load: %s\n", right ? "each unpaid order was cancelled once, and none early" : "WRONG");
    return right;
  }

 private:
  // Places what is due at the rate asked for, and ends once nothing is left.
  void step() noexcept {
    const options& asked = context_.asked;
    const std::chrono::duration<double> elapsed = tickwheel::clock::now() - begun_at_;
    const auto due = std::min<std::uint64_t>(static_cast<std::uint64_t>(elapsed.count() * asked.rate), asked.orders);
    std::deque<order>& orders = context_.orders;
    while (orders.size() < due && link_.has_room())
      orders.emplace_back(context_, link_, context_.first_number + orders.size()).place();
    if (orders.size() < asked.orders) {
      placed_at_ = tickwheel::clock::now();
    } else if (context_.open_orders == 0 || tickwheel::clock::now() > placed_at_ + asked.longest_limit + asked.margin) {
      stop();
    }
  }

  void stop() noexcept {
    step_timer_.cancel();
    link_.close();
    for (order& o : context_.orders) o.stop();
  }

  void end() noexcept {
    stop();
    context_.loop.close();
  }

  static void print(const std::string& what, std::uint64_t count) {
    std::printf("  %-44s %9ju\n", what.c_str(), std::uintmax_t{count});
  }

  static bool print_zero(const std::string& what, std::uint64_t count) {
    std::printf("  %-44s %9ju  %s\n", what.c_str(), std::uintmax_t{count}, count == 0 ? "right" : "WRONG");
    return count == 0;
  }

  static void print_lateness(const std::string& what, std::vector<nanoseconds>& late) {
    std::sort(late.begin(), late.end());
    const auto ms = [&](double fraction) {
      if (late.empty()) return 0.0;
      const auto at = static_cast<std::size_t>(fraction * static_cast<double>(late.size() - 1));
      return std::chrono::duration<double, std::milli>(late[at]).count();
    };
    std::printf("  %-44s p50 %.1f ms, p99 %.1f ms, at most %.1f ms, of %zu\n", what.c_str(), ms(0.5), ms(0.99), ms(1),
                late.size());
  }

  shop_context context_;
  link link_{context_};
  tickwheel::clock::time_point begun_at_{}, placed_at_{};
  tickwheel::interval_timer<&shop::step> step_timer_{context_.loop.timers(), *this};
};

}  // namespace

int main(int argc, char** argv) {
  options asked;
  CLI::App app{"A shop for order_timeouts: checks that each unpaid order is cancelled once, and none early.",
               "order_timeouts_load"};
  app.add_option("--port", asked.port, "where on 127.0.0.1 the server listens")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--orders", asked.orders, "how many to place")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--rate", asked.rate, "orders per second")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  app.add_option("--window", asked.window, "requests that wait for an answer, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 60'000));
  app.add_option("--paid", asked.paid_percent, "percent of the orders that are paid")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  app.add_option("--restarts", asked.restarts, "how often the server is restarted, at least")->capture_default_str();
  add_duration(app, "--shortest-limit", asked.shortest_limit, 1s, 1ms,
               "time limits are drawn from this to the longest: seconds, or with a unit [2s]");
  add_duration(app, "--longest-limit", asked.longest_limit, 1s, 1ms, "see above [8s]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (asked.longest_limit < asked.shortest_limit) {
    std::fprintf(stderr, "order_timeouts_load: --longest-limit is less than --shortest-limit\n");
    return exit_bad_usage;
  }
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us

  shop all{asked};
  if (const int error = all.run()) {
    std::fprintf(stderr, "order_timeouts_load: %s\n", uv_strerror(error));
    return exit_bad_usage;
  }
  return all.judge() ? 0 : 1;
}
