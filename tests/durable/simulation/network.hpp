// The network between the nodes and the store: it delays, reorders, loses and cuts off.
//
// A node has a connection with three links, as the PostgreSQL store has: starts, requests and members. Messages of one link
// arrive in their order; those of different links overtake each other. When a message is lost, nothing that follows on its
// link arrives. The node notices by its patience, gives its calls up, and connects again. The store then drops all that still
// comes from the connection before, and welcomes the node when nothing of it is under way: "no earlier call of this store
// takes effect any more".
#pragma once

#include "event_queue.hpp"
#include "machine.hpp"
#include "units.hpp"

#include <tickwheel/durable/memory.hpp>
#include <tickwheel/durable/store.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace simulation {

namespace durable = tickwheel::durable;

enum class link : std::uint8_t { starts, requests, members };
inline constexpr std::size_t links = 3;
link link_of(durable::store_verb) noexcept;

enum class direction : std::uint8_t { up, down };  // to the store; to the node

class connection;

/// The process at the near end of a connection.
class host {
 public:
  /// Carries `what` out on the loop: now, when the process goes on, or never.
  virtual void receive(std::function<void()> what) = 0;
  /// Returns the time of its clock.
  virtual nanos local_now() = 0;

 protected:
  ~host() = default;
};

/// Sees what passes through the network.
class observer {
 public:
  virtual void on_opened(connection&) = 0;
  /// No effect of the connection follows.
  virtual void on_gone(connection&) = 0;
  /// The process has made a call.
  virtual void on_asked(connection&, durable::store_verb, const durable::store_call&) = 0;
  /// A request has arrived at the store.
  virtual void on_arrived(connection&, durable::store_verb, const durable::store_call&) = 0;
  /// The store has answered.
  virtual void on_carried(connection&, durable::store_verb, const durable::store_call&) = 0;
  /// The process is about to get an answer to the call that it made at `asked_at`, by its clock.
  virtual void on_answer(connection&, durable::store_verb, const durable::store_call&, nanos asked_at) = 0;

 protected:
  ~observer() = default;
};

struct network_options {
  unsigned places = 1;
  nanos delay = 300 * us;      ///< of a message, at least
  nanos jitter = ms;           ///< and so much more
  nanos patience = second;     ///< of a node, until it takes its connection for dead
  nanos silence = 5 * second;  ///< of the store, until it takes the connection of a machine without power for dead
  std::uint64_t seed = 1;
};

class network {
 public:
  network(event_queue&, machine& server, std::shared_ptr<durable::memory_database>, const network_options&, observer&);
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  /// Makes the store of a process. `place`: from 0 on.
  std::unique_ptr<durable::store> make_store(unsigned place, std::string name, host&);

  void cut(unsigned place, direction, bool on);
  /// Messages of a place take so much longer.
  void slow(unsigned place, nanos by) { places_[place].slower = by; }
  /// Loses the next message.
  void lose_next(unsigned place, link, direction);
  /// From now on nothing is cut off, lost or much slower than the rest, and the server is up.
  void calm() {
    is_calm_ = true;
    is_down_ = false;
    for (site& s : places_) {
      s.is_cut = {};
      s.loses = {};
      s.slower = 0;
    }
  }
  /// The machine of a place is about to lose its power. What is on the way arrives or not, and the store does not learn of it for
  /// long.
  void lose_power(unsigned place, bool keeps);
  /// The connection of a place is reset, and the node notices.
  void reset(unsigned place);
  /// The server crashes. What has arrived is kept; what is on the way is carried out before, or not at all. The server is
  /// down until `start_server`.
  void crash_server(bool keeps);
  void start_server() noexcept { is_down_ = false; }

 private:
  friend class connection;
  friend class network_store;
  struct site {
    std::array<bool, 2> is_cut{};
    std::array<std::array<bool, links>, 2> loses{};
    nanos slower = 0;
    std::uint64_t messages = 0;
  };
  nanos delay_of(unsigned place);

  event_queue& queue_;
  machine& server_;
  std::shared_ptr<durable::memory_database> database_;
  network_options options_;
  observer& observer_;
  std::vector<site> places_;
  std::vector<std::shared_ptr<connection>> connections_;  // those that may have an effect
  std::vector<std::weak_ptr<connection>> current_;        // the last one of each place
  bool is_down_ = false;
  bool is_calm_ = false;
};

/// Both ends of the connection of one process.
class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(network&, unsigned place, std::string name, host&);
  ~connection();

  // For the node's end
  template <class Call, void (durable::store::*Verb)(Call&) noexcept>
  void call(durable::store_verb, Call&);
  /// Answers all calls. The store learns of it when all that was sent has arrived.
  void close();

  const std::string& name() const noexcept { return name_; }
  unsigned place() const noexcept { return place_; }

  std::uint32_t number = 0;             ///< the observer's
  durable::session_number session = 0;  ///< the observer's

 private:
  friend class network;
  struct flight;
  template <class Call, void (durable::store::*Verb)(Call&) noexcept>
  struct flight_of;
  using flight_ptr = std::shared_ptr<flight>;
  struct pipe {
    std::array<std::array<nanos, links>, 2> last{};  // when the last message arrives
    std::array<std::array<bool, links>, 2> is_broken{};
  };

  void add(flight_ptr);
  void transmit(const flight_ptr&);
  void send(direction, link, std::function<void()> arrive);
  void arrive(const flight_ptr&);
  void on_carried(flight&);
  void deliver(const flight_ptr&);
  void connect();
  void on_hello(std::uint64_t epoch);
  void check_idle();
  void on_welcome(std::uint64_t epoch);
  void break_off(std::uint64_t epoch);
  void give_up_all();
  void watch();
  void on_leave();
  void leave_server();

  network& net_;
  const unsigned place_;
  const std::string name_;

  // the node's end
  host* host_;
  std::uint64_t epoch_ = 0;
  bool is_connected_ = false;
  bool is_watching_ = false;
  std::shared_ptr<pipe> pipe_;
  std::vector<flight_ptr> flights_;  // not answered, in the order of the calls
  bool has_lost_power_ = false;
  bool keeps_ = false;

  // the store's end
  std::unique_ptr<durable::store> backend_;
  std::uint64_t accepted_ = 0;
  std::uint64_t to_welcome_ = 0;
  std::vector<flight_ptr> carried_;  // with the backend
  bool is_accepting_ = false;
  bool leaves_ = false;
  bool is_gone_ = false;
};

}  // namespace simulation
