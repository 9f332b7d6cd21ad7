// A shop for order_timeouts, which it judges: is each order that is not paid cancelled, on time, and once?
//
//   order_timeouts --port 7003 --file orders.db &
//   order_timeouts_load --port 7003 --orders 100000 --outages 3
//
// Orders are placed at a steady rate. Each has a time limit, and half of them are paid in time, or just too late. Meanwhile somebody
// may kill a server and start it again, or stop it for a while: the shop connects again, and repeats what was not answered. With
// several servers it asks each in turn, and leaves out those that are silent. Read it from the top:
//
//   order     what the shop knows of one order: places it, pays it, is told to cancel it
//   link      the connection to a server, and which request waits for which answer
//   links     the connections to all servers: which of them is asked next
//   shop      places orders, ends, judges
//
// It ends with a table of figures and a verdict:
//
//   exit code 0   every figure that must be zero is zero
//             1   some figure is wrong, or the server was not there
//             2   asked for something impossible

#include "../support/command_line.hpp"
#include "../support/standard_descriptors.hpp"
#include "order_timeouts_figures.hpp"
#include "order_timeouts_outages.hpp"
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
#include <memory>
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
  std::vector<int> ports;
  std::size_t partitions = 1;
  unsigned orders = 100'000;
  unsigned rate = 5'000;
  unsigned window = 4'000;
  milliseconds shortest_limit = 2s;
  milliseconds longest_limit = 8s;
  unsigned paid_percent = 50;
  unsigned outages = 0;
  milliseconds margin = 15s;
};

// With several servers an answer that takes longer is given up: its server may be stopped, and another one is asked.
constexpr auto longest_answer = 2s;

class order;
class links;

// State that the orders and the connections share.
struct shop_context {
  explicit shop_context(const options& o) : asked{o}, outages{o.partitions} {}

  milliseconds draw_from(milliseconds least, milliseconds most) {
    return milliseconds{std::uniform_int_distribution{least.count(), most.count()}(random)};
  }

  order* find(std::uint64_t number) noexcept;

  const options& asked;
  tickwheel::event_loop loop;
  shop_figures counted;
  outage_log outages;
  std::deque<order> orders;  // a deque, because an order holds timers and cannot move
  std::uint64_t first_number = static_cast<std::uint64_t>(to_wire(system_clock::now()));  // no other run has the same
  std::uint64_t open_orders = 0;                                                          // neither paid nor cancelled
  std::uint64_t repeating = 0;                                                            // of these, wait to ask again
  std::mt19937 random;
};

// --- one order -------------------------------------------------------------------------------------------------------

class order : public tickwheel::pending_call {
 public:
  order(shop_context& on, links& over, std::uint64_t number);

  void place() noexcept;
  void on_answer(order_news) noexcept;
  /// No answer came, because the connection was lost, or its server is silent.
  void on_failed(int error) noexcept;
  void on_told_to_cancel(const order_message&) noexcept;
  /// Asks nothing more.
  void stop() noexcept { next_.cancel(); }

 private:
  enum class stage { placing, placed, paying, paid, cancelled };

  void ask() noexcept;
  void confirm(system_clock::time_point now) noexcept;
  void plan_payment() noexcept;
  void end(stage how) noexcept;
  void repeats_no_more() noexcept { on_.repeating -= std::exchange(is_repeating_, false); }

  shop_context& on_;
  links& links_;
  const std::uint64_t number_;
  system_clock::time_point due_{}, confirmed_at_{};
  stage stage_ = stage::placing;
  bool is_confirmed_ = false;
  bool is_told_ = false;                       // to cancel it
  bool is_repeating_ = false;                  // it waits to ask again
  tickwheel::member_timer<&order::ask> next_;  // to repeat the request, or to pay
};

// --- the connections ---------------------------------------------------------------------------------------------------

class link {
 public:
  link(shop_context& on, int port) : on_{on}, port_{port} {}

  /// Returns 0 or a UV_ code.
  int open() noexcept {
    if (const int error = uv_ip4_addr("127.0.0.1", port_, &server_)) return error;
    if (const int error = waiting_.open(on_.asked.window)) return error;
    connect();
    return 0;
  }

  /// Sends a request of `o`, which waits for the answer. Requires: `has_room`.
  bool ask(order& o, const order_request& r) noexcept {
    const auto until = on_.asked.ports.size() == 1 ? tickwheel::deadline::never()
                                                   : tickwheel::deadline::after(longest_answer, on_.loop.timers());
    if (waiting_.start(o, r.order, until) != 0) return false;
    stream_.write(r);
    return true;
  }
  void ask_for_report() noexcept { stream_.write({0, 0, order_verb::report}); }

  bool has_room() const noexcept { return stream_.is_connected() && waiting_.pending() < waiting_.capacity(); }
  const server_sight& sight() const noexcept { return sight_; }

  void on_connected() noexcept {
    ++on_.counted.connections;
    sight_ = {.is_connected = true};  // its report follows
  }

  void on_message(const order_message& m) noexcept {
    switch (m.news) {
      case order_news::owns:
        sight_.heard_at = system_clock::now();
        sight_.partitions = m.order;
        return;
      case order_news::cancel:
        stream_.write({m.order, 0, order_verb::acknowledge});
        if (auto* const o = on_.find(m.order)) o->on_told_to_cancel(m);  // none: it is from an earlier run
        return;
      default:
        if (auto* const o = waiting_.complete(m.order)) o->on_answer(m.news);  // none: another server has answered
    }
  }

  void on_closed() noexcept {
    sight_.is_connected = false;
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
  const int port_;
  sockaddr_in server_{};
  server_sight sight_;
  bool closing_ = false;
  message_stream<order_message, order_request, link> stream_{*this};
  tickwheel::pending_calls<&order::on_failed> waiting_;
  tickwheel::member_timer<&link::connect> reconnect_{on_.loop.timers(), *this};
};

class links {
 public:
  explicit links(shop_context& on) : on_{on} {
    for (const int port : on.asked.ports) all_.push_back(std::make_unique<link>(on, port));
  }

  /// Returns 0 or a UV_ code.
  int open() noexcept {
    for (const auto& l : all_)
      if (const int error = l->open()) return error;
    return 0;
  }
  void close() noexcept {
    for (const auto& l : all_) l->close();
  }

  /// Sends a request of `o` to the next server. Returns false if it must wait: no server is there, or all have as many requests as they may.
  bool ask(order& o, const order_request& r) noexcept {
    for (std::size_t tries = 0; tries != all_.size(); ++tries)
      if (link& next = *all_[++turn_ % all_.size()]; can_ask(next)) return next.ask(o, r);
    return false;
  }
  bool has_room() const noexcept {
    return std::any_of(all_.begin(), all_.end(), [this](const auto& l) { return can_ask(*l); });
  }

  /// Asks all servers which partitions they own, and checks the answers of the last time.
  void look() {
    now_ = system_clock::now();
    std::vector<const server_sight*> servers;
    for (const auto& l : all_) servers.push_back(&l->sight());
    on_.outages.look(servers, now_);
    for (const auto& l : all_) l->ask_for_report();
  }

  /// Returns "a 22, b gone, c 21": the partitions of each server.
  std::string partitions() const {
    std::string text;
    char name = 'a';
    for (const auto& l : all_) {
      const server_sight& s = l->sight();
      if (!text.empty()) text += ", ";
      text += name++;
      text += ' ';
      text += !s.is_connected ? "gone" : s.is_alive(now_) ? std::to_string(s.partitions) : "silent";
    }
    return text;
  }
  std::size_t size() const noexcept { return all_.size(); }

 private:
  bool can_ask(const link& l) const noexcept { return l.has_room() && l.sight().is_alive(now_); }

  shop_context& on_;
  std::vector<std::unique_ptr<link>> all_;
  std::size_t turn_ = 0;
  system_clock::time_point now_{};  // of the last check
};

order* shop_context::find(std::uint64_t number) noexcept {
  const std::uint64_t index = number - first_number;
  return index < orders.size() ? &orders[index] : nullptr;
}

// --- how an order goes -----------------------------------------------------------------------------------------------

order::order(shop_context& on, links& over, std::uint64_t number)
    : pending_call{on.loop.timers()}, on_{on}, links_{over}, number_{number}, next_{on.loop.timers(), *this} {}

// The shop decides when the order is due, so that a repeated request is the same request.
void order::place() noexcept {
  ++on_.open_orders;
  due_ = system_clock::now() + on_.draw_from(on_.asked.shortest_limit, on_.asked.longest_limit);
  ask();
}

// Places it or pays it, whichever is next. May be repeated until there is an answer.
void order::ask() noexcept {
  repeats_no_more();
  if (stage_ == stage::placed) stage_ = stage::paying;
  const order_verb verb = stage_ == stage::placing ? order_verb::place : order_verb::pay;
  if (!links_.ask(*this, {number_, to_wire(due_), verb})) on_failed(UV_EAGAIN);
}

void order::on_failed(int) noexcept {
  if (is_told_) return end(stage::cancelled);
  is_repeating_ = true;
  ++on_.repeating;
  (void)next_.arm(on_.draw_from(20ms, 100ms));  // cannot fail: the service is open, and has no limit
}

void order::on_answer(order_news news) noexcept {
  switch (news) {
    case order_news::placed:
      confirm(system_clock::now());
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

// During an outage a request is repeated, and the order may be due before the store has it.
void order::confirm(system_clock::time_point now) noexcept {
  if (std::exchange(is_confirmed_, true)) return;
  confirmed_at_ = now;
  shop_figures& f = on_.counted;
  ++f.confirmed;
  if (now <= due_) return;
  ++f.confirmed_late;
  f.latest_confirmation = std::max<nanoseconds>(f.latest_confirmation, now - due_);
}

void order::plan_payment() noexcept {
  stage_ = stage::placed;
  if (on_.random() % 100 >= on_.asked.paid_percent) return;
  const auto left = std::chrono::duration_cast<milliseconds>(due_ - system_clock::now());
  (void)next_.arm(on_.draw_from(0ms, std::max(left, 0ms)));  // as above
}

void order::on_told_to_cancel(const order_message& m) noexcept {
  const auto now = system_clock::now();
  shop_figures& f = on_.counted;
  if (m.attempt > 1) ++f.started_again;
  if (now < due_) ++f.early;
  if (stage_ == stage::paid) ++f.paid_and_cancelled;
  if (from_wire(m.due_ns) != due_) ++f.cancelled_twice;
  if (is_told_) {
    ++f.told_again;  // the same order and due time: nothing is cancelled twice
    return;
  }
  is_told_ = true;
  const bool was_confirmed = is_confirmed_;
  confirm(now);
  if (stage_ == stage::paid || stage_ == stage::cancelled) return;
  ++f.cancelled;
  // This may be the confirmation also, and then only the time of the confirmation is known.
  if (was_confirmed) f.cancellations.push_back({std::max(due_, confirmed_at_), now});
  if (!pending()) end(stage::cancelled);  // otherwise its answer comes first
}

void order::end(stage how) noexcept {
  if (stage_ == stage::paid || stage_ == stage::cancelled) return;
  stage_ = how;
  next_.cancel();
  repeats_no_more();
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
    if (const int error = links_.open()) return error;
    if (const int error = step_timer_.start(1ms)) return error;
    if (const int error = look_timer_.start(100ms)) return error;
    placed_at_ = tickwheel::clock::now();
    context_.loop.run();
    end();
    return 0;
  }

  /// Prints the figures; true when they are right. Requires: it has run.
  bool judge() {
    const options& asked = context_.asked;
    shop_figures& f = context_.counted;
    f.unconfirmed = asked.orders - f.confirmed;
    f.lost += context_.open_orders;
    std::printf("order_timeouts_load: %u orders, %zu servers\n", asked.orders, links_.size());
    const bool right = f.judge(context_.outages, asked.outages);
    std::printf("order_timeouts_load: %s\n", right ? "each unpaid order was cancelled once, and none early" : "WRONG");
    return right;
  }

 private:
  // Asks for the owners of all partitions. The first order waits until each partition has one.
  void look() noexcept {
    links_.look();
    const auto now = tickwheel::clock::now();
    if (begun_at_ == tickwheel::clock::time_point{} && context_.outages.is_ready()) begun_at_ = now;
    if (links_.size() < 2 || begun_at_ == tickwheel::clock::time_point{} || now < told_at_ + 1s) return;
    told_at_ = now;
    const shop_figures& f = context_.counted;
    std::printf("%4.0f s  partitions: %-32s  orders: %6zu placed, %6ju paid, %6ju cancelled\n",
                std::chrono::duration<double>(now - begun_at_).count(), links_.partitions().c_str(),
                context_.orders.size(), std::uintmax_t{f.paid}, std::uintmax_t{f.cancelled});
  }

  // Places what is due at the rate asked for, and ends once nothing is left.
  void step() noexcept {
    const options& asked = context_.asked;
    if (begun_at_ == tickwheel::clock::time_point{}) {
      if (tickwheel::clock::now() > placed_at_ + asked.margin) stop();
      return;
    }
    const std::chrono::duration<double> elapsed = tickwheel::clock::now() - begun_at_;
    const auto due = std::min<std::uint64_t>(static_cast<std::uint64_t>(elapsed.count() * asked.rate), asked.orders);
    std::deque<order>& orders = context_.orders;
    // Orders that wait to ask again come first. Otherwise new ones would take each place that gets free after an outage.
    while (orders.size() < due && context_.repeating == 0 && links_.has_room())
      orders.emplace_back(context_, links_, context_.first_number + orders.size()).place();
    if (orders.size() < asked.orders) {
      placed_at_ = tickwheel::clock::now();
    } else if (context_.open_orders == 0 || tickwheel::clock::now() > placed_at_ + asked.longest_limit + asked.margin) {
      stop();
    }
  }

  void stop() noexcept {
    step_timer_.cancel();
    look_timer_.cancel();
    links_.close();
    for (order& o : context_.orders) o.stop();
  }

  void end() noexcept {
    stop();
    context_.loop.close();
  }

  shop_context context_;
  links links_{context_};
  tickwheel::clock::time_point begun_at_{}, placed_at_{}, told_at_{};
  tickwheel::interval_timer<&shop::step> step_timer_{context_.loop.timers(), *this};
  tickwheel::interval_timer<&shop::look> look_timer_{context_.loop.timers(), *this};
};

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"A shop for order_timeouts: checks that each unpaid order is cancelled once, and none early.",
               "order_timeouts_load"};
  app.add_option("--port", asked.ports, "where on 127.0.0.1 a server listens; once for each server of a cluster")
      ->required()
      ->check(CLI::Range(1, 65535));
  app.add_option("--partitions", asked.partitions, "how many the store has: a PostgreSQL database has 64, a file has 1")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
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
  app.add_option("--outages", asked.outages, "how often a server is killed or stopped, at least")
      ->capture_default_str();
  add_duration(app, "--shortest-limit", asked.shortest_limit, 1s, 1ms,
               "time limits are drawn from this to the longest: seconds, or with a unit [2s]");
  add_duration(app, "--longest-limit", asked.longest_limit, 1s, 1ms, "see above [8s]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (asked.longest_limit < asked.shortest_limit) {
    std::fprintf(stderr, "order_timeouts_load: --longest-limit is less than --shortest-limit\n");
    return exit_bad_usage;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe
  std::signal(SIGPIPE, SIG_IGN);  // writing to a connection that the server closed is a figure, not the end of us

  shop all{asked};
  if (const int error = all.run()) {
    std::fprintf(stderr, "order_timeouts_load: %s\n", uv_strerror(error));
    return exit_bad_usage;
  }
  return all.judge() ? 0 : 1;
}
