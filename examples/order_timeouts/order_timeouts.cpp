// A server that cancels unpaid orders when their time is over, even if it is killed and restarted meanwhile.
//
//   order_timeouts --port 7003 --file orders.db
//   order_timeouts --port 7003 --store postgres --conninfo "host=db.example.com dbname=shop" --name a
//
// Several servers may share a PostgreSQL database: each is a node with a name of its own, and starts some of the tasks.
//
// A shop places an order, with the time at which it expires unless it is paid. The time limit is a durable task: it is on disk before
// the shop gets its answer. Paying cancels the task. When the task is due the server tells the shop to cancel the order, and the task
// is done when the shop has acknowledged that. Read it from the top:
//
//   shop      one connection: its requests, and the starts that wait for its acknowledgement
//   server    the loop and the scheduler: accepts shops, hands them the tasks that are due, drains
//
// The server keeps no order in memory. After a crash it starts the tasks again that were running. A shop may then be told to cancel the
// same order twice. It recognizes that by the number of the order and its due time.

#include "../support/as_option.hpp"
#include "../support/command_line.hpp"
#include "../support/listen.hpp"
#include "../support/scheduler_drain.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/stop_signals.hpp"
#include "order_timeouts_protocol.hpp"
#include "order_timeouts_stream.hpp"

#include <tickwheel/durable/durable.hpp>
#ifdef WITH_POSTGRES
#include <tickwheel/durable/postgres.hpp>
#endif
#include <tickwheel/durable/sqlite.hpp>
#include <tickwheel/tickwheel.hpp>

#include <uv.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

// The id of an order's task. It names what the task is about, so that one store can keep other tasks as well.
constexpr std::string_view id_prefix = "order-";

std::string id_of(std::uint64_t order) { return std::string{id_prefix} + std::to_string(order); }

std::uint64_t order_of(std::string_view id) noexcept {
  std::uint64_t order = 0;
  id.remove_prefix(id_prefix.size());
  std::from_chars(id.data(), id.data() + id.size(), order);
  return order;
}

class server;

// --- one shop --------------------------------------------------------------------------------------------------------

// The server owns it until its connection is closed. An answer that comes later finds it gone.
class shop : public std::enable_shared_from_this<shop> {
 public:
  explicit shop(server& on) : on_{on} {}

  void accept(uv_stream_t& listener) noexcept { stream_.accept(listener); }
  void close() noexcept { stream_.close(); }
  bool is_connected() const noexcept { return stream_.is_connected(); }

  /// Tells the shop to cancel an order. The start ends when the shop has acknowledged that.
  void cancel_order(durable::execution run) noexcept {
    const std::uint64_t order = order_of(run.id());
    stream_.write({order, to_wire(run.due()), order_news::cancel, run.attempt()});
    starts_.insert_or_assign(order, std::move(run));
  }

  /// Gives back the starts that wait for its acknowledgement. They are due at once, and that is no failure.
  void give_back() noexcept {
    for (auto& [order, run] : std::exchange(starts_, {})) run.retry_after(0s);
  }

  void on_connected() noexcept;
  void on_message(const order_request& r) noexcept {
    switch (r.verb) {
      case order_verb::place:
        return place(r.order, from_wire(r.due_ns));
      case order_verb::pay:
        return pay(r.order);
      case order_verb::acknowledge:
        return acknowledge(r.order);
      case order_verb::report:
        return report();
    }
    close();
  }

  void on_closed() noexcept;

 private:
  void place(std::uint64_t order, durable::clock::time_point due) noexcept;
  void pay(std::uint64_t order) noexcept;
  void report() noexcept;

  void acknowledge(std::uint64_t order) noexcept {
    if (auto start = starts_.extract(order)) start.mapped().done();
  }

  void answer(std::uint64_t order, order_news news) noexcept { stream_.write({order, 0, news}); }

  server& on_;
  message_stream<order_request, order_message, shop> stream_{*this};
  std::unordered_map<std::uint64_t, durable::execution> starts_;  // by their orders
};

// --- the server ------------------------------------------------------------------------------------------------------

struct options {
  int port = 7003;
  std::string store = "sqlite";
  std::string file = "orders.db";
  std::string conninfo;
  std::string name;
  std::chrono::milliseconds lease = 10s;
  std::chrono::milliseconds drain = 10s;
};

std::unique_ptr<durable::store> make_store(const options& asked) {
#ifdef WITH_POSTGRES
  if (asked.store == "postgres") return durable::postgres_store(asked.conninfo);
#endif
  return durable::sqlite_store(asked.file);
}

durable::scheduler_options options_of_scheduler(const options& asked) {
  return {.name = asked.name, .lease = asked.lease};
}

class server {
 public:
  explicit server(options asked) : asked_{std::move(asked)} {}
  ~server() {
    orders_.close();
    loop_.close();
  }

  /// Opens the store, and serves until it is told to stop. 0, or what the program ends with.
  int run() {
    if (const int error = open()) fail(problem_of(error));
    if (loop_.is_open()) loop_.run();
    return exit_code_;
  }

  durable::scheduler& orders() noexcept { return orders_; }

  void remove(const shop& closed) noexcept {
    std::erase_if(shops_, [&](const std::shared_ptr<shop>& s) { return s.get() == &closed; });
    if (shops_.empty()) orders_.pause();
  }

 private:
  int open() {
    if (const int error = loop_.open()) return error;
    if (const int error = signals_.start(loop_.uv())) return error;
    if (const int error = listen())
      return problem_ = "127.0.0.1:" + std::to_string(asked_.port) + ": " + uv_strerror(error), error;
    if (const int error = store_is_slow_.arm(1s)) return error;
    orders_.pause();  // until there is a shop
    orders_.on_due([this](durable::execution run) noexcept { on_due(std::move(run)); });
    return orders_.open([this](int error) noexcept { on_ready(error); });
  }

  // Before the store is opened: a server whose address is in use must not make a file. The requests of shops wait for the store.
  int listen() {
    if (const int error = uv_tcp_init(&loop_.uv(), &listener_)) return error;
    listener_.data = this;
    uv_ip4_addr("127.0.0.1", asked_.port, &address_);
    return listen_at(listener_, address_, [](uv_stream_t* s, int failed) {
      if (failed == 0) static_cast<server*>(s->data)->accept(*s);
    });
  }

  // The store is open. In a file the tasks of a server that was killed are pending again.
  void on_ready(int error) noexcept {
    if (error == UV_ECANCELED) return;
    if (error != 0) return fail(problem_of(error));
    is_ready_ = true;
    store_is_slow_.cancel();
    std::printf("listening on 127.0.0.1:%d\n", ntohs(address_.sin_port));
  }

  // NOLINTNEXTLINE(readability-make-member-function-const): a member_timer calls it
  void on_store_is_slow() noexcept {
    std::fprintf(stderr, "order_timeouts: waits for the store: %s\n",
                 orders_.problem().empty() ? "it has not answered yet" : std::string{orders_.problem()}.c_str());
  }

  void accept(uv_stream_t& listener) {
    shops_.push_back(std::make_shared<shop>(*this));
    shops_.back()->accept(listener);
  }

  // Any shop will do.
  void on_due(durable::execution run) noexcept {
    if (is_given_back_) return run.retry_after(0s);
    for (const std::shared_ptr<shop>& s : shops_)
      if (s->is_connected()) return s->cancel_order(std::move(run));
    run.retry_after(100ms);  // its shop has just gone, which is no failure of the task
  }

  // A signal has arrived: the first one, or another one during the drain.
  void stop() noexcept {
    if (std::exchange(is_stopping_, true)) return starts_.give_back();
    drain();
  }

  // Starts nothing more, and waits for the acknowledgements.
  void drain() noexcept {
    store_is_slow_.cancel();
    close_listener();
    starts_.start(asked_.drain, is_ready_);
  }

  // The next server starts these tasks again.
  void give_back() noexcept {
    is_given_back_ = true;
    for (const std::shared_ptr<shop>& s : shops_) s->give_back();
  }

  void end() noexcept {
    orders_.close();
    for (const std::shared_ptr<shop>& s : shops_) s->close();
    const durable::scheduler_stats s = orders_.stats();
    std::printf("drained: %ju scheduled, %ju started, %ju finished, %ju recovered after a kill\n",
                std::uintmax_t{s.scheduled}, std::uintmax_t{s.started}, std::uintmax_t{s.finished},
                std::uintmax_t{s.recovered});
    signals_.close();  // a signal that came meanwhile must not end the program otherwise
  }

  std::string problem_of(int error) const {
    if (!problem_.empty()) return problem_;
    return orders_.problem().empty() ? uv_strerror(error) : std::string{orders_.problem()};
  }

  void fail(const std::string& why) noexcept {
    std::fprintf(stderr, "order_timeouts: %s\n", why.c_str());
    exit_code_ = exit_bad_usage;
    signals_.close();
    close_listener();
    store_is_slow_.cancel();
    orders_.close();
    for (const std::shared_ptr<shop>& s : shops_) s->close();
  }

  void close_listener() noexcept {
    auto* const handle = reinterpret_cast<uv_handle_t*>(&listener_);
    if (handle->data != nullptr && !uv_is_closing(handle)) uv_close(handle, nullptr);
  }

  const options asked_;
  int exit_code_ = 0;
  std::string problem_;  // of the address; empty: none
  bool is_ready_ = false, is_stopping_ = false, is_given_back_ = false;
  tickwheel::event_loop loop_;
  stop_signals<&server::stop> signals_{*this};
  uv_tcp_t listener_{};  // its data is set once it is the loop's
  sockaddr_in address_{};
  std::vector<std::shared_ptr<shop>> shops_;
  durable::scheduler orders_{loop_.timers(), make_store(asked_), options_of_scheduler(asked_)};
  scheduler_drain<&server::give_back, &server::end> starts_{loop_.timers(), orders_, *this};
  tickwheel::member_timer<&server::on_store_is_slow> store_is_slow_{loop_.timers(), *this};
};

// --- what a shop asks ------------------------------------------------------------------------------------------------

void shop::place(std::uint64_t order, durable::clock::time_point due) noexcept {
  const auto done = [to = weak_from_this(), order](durable::schedule_result r) noexcept {
    const auto self = to.lock();
    if (self == nullptr) return;  // it will place the order again, and `keep` has kept this one
    switch (r) {
      case durable::schedule_result::scheduled:
      case durable::schedule_result::exists:   // placed twice, because the first answer was lost
      case durable::schedule_result::running:  // and in time to be due already,
      case durable::schedule_result::ended:    // or done
        return self->answer(order, order_news::placed);
      default:
        return self->answer(order, order_news::try_again);
    }
  };
  if (on_.orders().schedule({.id = id_of(order), .due = due}, done) != 0) answer(order, order_news::try_again);
}

void shop::pay(std::uint64_t order) noexcept {
  const auto done = [to = weak_from_this(), order](durable::cancel_result r) noexcept {
    const auto self = to.lock();
    if (self == nullptr) return;
    switch (r) {
      case durable::cancel_result::cancelled:
        return self->answer(order, order_news::paid);
      case durable::cancel_result::running:
      case durable::cancel_result::finished:
        return self->answer(order, order_news::too_late);
      case durable::cancel_result::not_found:
        return self->answer(order, order_news::unknown);
      default:
        return self->answer(order, order_news::try_again);
    }
  };
  if (on_.orders().cancel(id_of(order), done) != 0) answer(order, order_news::try_again);
}

void shop::report() noexcept { answer(on_.orders().stats().partitions, order_news::owns); }

void shop::on_connected() noexcept { on_.orders().resume(); }

// Another shop gets what this one did not acknowledge.
void shop::on_closed() noexcept {
  give_back();
  on_.remove(*this);  // destroys this
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  options asked;
  CLI::App app{"A server that cancels unpaid orders when their time is over, across crashes and restarts.",
               "order_timeouts"};
#ifdef WITH_POSTGRES
  const std::vector<std::string> stores{"sqlite", "postgres"};
#else
  const std::vector<std::string> stores{"sqlite"};
#endif
  app.add_option("--port", asked.port, "on 127.0.0.1; 0: one that is free, which the first line of output names")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--store", asked.store, "where the tasks are: a file, or a server that several nodes share")
      ->capture_default_str()
      ->check(CLI::IsMember{stores});
  const auto* const file =
      app.add_option("--file", asked.file, "sqlite: the file; created if it does not exist")->capture_default_str();
  const auto* const conninfo =
      app.add_option("--conninfo", asked.conninfo, "postgres: the database, as libpq names it");
  const auto* const name = app.add_option("--name", asked.name, "postgres: of this node; made up if it is empty");
  app.parse_complete_callback([&] {
    const auto needs = [&](const CLI::Option* option, const std::string& store) {
      if (option->count() != 0 && asked.store != store)
        throw CLI::ValidationError(option->get_name(), "it needs --store " + store);
    };
    needs(file, "sqlite");
    needs(conninfo, "postgres");
    needs(name, "postgres");
  });
  add_duration(app, "--lease", asked.lease, 1s, 1ms,
               "a node that gives no sign of life for this time is given up: seconds, or with a unit [10s]");
  add_duration(app, "--drain", asked.drain, 1s, 1ms,
               "how long shops may take to acknowledge, once signalled: seconds, or with a unit [10s]");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (const char* const wrong = options_of_scheduler(asked).problem()) {
    std::fprintf(stderr, "order_timeouts: %s\n", as_option(wrong).c_str());
    return exit_bad_usage;
  }

  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whole lines, also into a pipe, where a script waits for the first
  std::signal(SIGPIPE, SIG_IGN);  // writing to a peer that is gone is an error of that peer, not the end of us
  return server{asked}.run();
}
