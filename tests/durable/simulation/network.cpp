#include "network.hpp"

#include "call_copy.hpp"

#include <tickwheel/core/detail/splitmix64.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace simulation {

namespace {

using durable::store_call;
using durable::store_status;
using durable::store_verb;

constexpr nanos connect_again_after = 50 * ms;

bool is_read(store_verb v) { return v == store_verb::load || v == store_verb::get || v == store_verb::list; }
std::size_t index(link l) { return static_cast<std::size_t>(l); }
std::size_t index(direction d) { return static_cast<std::size_t>(d); }

}  // namespace

link link_of(store_verb v) noexcept {
  switch (v) {
    case store_verb::begin:
    case store_verb::finish:
    case store_verb::release:
      return link::starts;
    case store_verb::put:
    case store_verb::cancel:
    case store_verb::revive:
    case store_verb::get:
    case store_verb::list:
      return link::requests;
    default:
      return link::members;
  }
}

// --- the messages

/// A call on its way.
struct connection::flight : std::enable_shared_from_this<flight> {
  flight(connection& c, store_verb v, store_call& a) : of{c}, verb{v}, asked{&a} {}
  virtual ~flight() = default;
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;
  virtual void carry_out(durable::store&) = 0;
  virtual const store_call& remote() const = 0;
  virtual void answer() = 0;

  connection& of;
  store_verb verb;
  store_call* asked;  // null: given up
  std::uint64_t epoch = 0;
  bool is_sent = false;
  bool has_arrived = false;
  nanos since = 0;     // when it was asked, or sent
  nanos asked_at = 0;  // the same, by the node's clock
};

template <class Call, void (durable::store::*Verb)(Call&) noexcept>
struct connection::flight_of final : flight, Call {
  flight_of(connection& c, store_verb v, Call& a) : flight{c, v, a}, Call{&carried} { copy_request(a, *this); }
  static void carried(store_call& c) noexcept {
    auto& self = static_cast<flight_of&>(static_cast<Call&>(c));
    self.of.on_carried(self);
  }
  void carry_out(durable::store& s) override { (s.*Verb)(*this); }
  const store_call& remote() const override { return *this; }
  void answer() override {
    auto& into = static_cast<Call&>(*asked);
    into.status = this->status;
    into.now = this->now;
    if (this->status == store_status::ok) move_answer(*this, into);
  }
};

template <class Call, void (durable::store::*Verb)(Call&) noexcept>
void connection::call(store_verb v, Call& c) {
  net_.observer_.on_asked(*this, v, c);
  add(std::make_shared<flight_of<Call, Verb>>(*this, v, c));
}

// --- the node's end

connection::connection(network& n, unsigned place, std::string name, host& h)
    : net_{n}, place_{place}, name_{std::move(name)}, host_{&h}, pipe_{std::make_shared<pipe>()} {
  backend_ = durable::memory_store(n.database_);
  if (backend_->open(n.server_.timers) != 0) std::abort();
}

connection::~connection() {
  is_gone_ = true;
  if (backend_ != nullptr) backend_->close();
}

void connection::add(flight_ptr f) {
  f->since = net_.queue_.now();
  f->asked_at = host_->local_now();
  flights_.push_back(f);
  if (epoch_ == 0) connect();
  if (is_connected_) transmit(f);
}

void connection::transmit(const flight_ptr& f) {
  f->epoch = epoch_;
  f->is_sent = true;
  f->since = net_.queue_.now();
  send(direction::up, link_of(f->verb), [self = shared_from_this(), f] { self->arrive(f); });
  watch();
}

void connection::send(direction d, link l, std::function<void()> arrive) {
  network::site& at = net_.places_[place_];
  const auto way = pipe_;
  const auto is_lost = [&net = net_, place = place_, way, d, l] {
    if (net.places_[place].is_cut.at(index(d))) way->is_broken.at(index(d)).at(index(l)) = true;
    return way->is_broken.at(index(d)).at(index(l));
  };
  if (std::exchange(at.loses.at(index(d)).at(index(l)), false)) way->is_broken.at(index(d)).at(index(l)) = true;
  if (is_lost()) return;
  nanos& last = way->last.at(index(d)).at(index(l));
  last = std::max(last, net_.queue_.now() + net_.delay_of(place_));
  net_.queue_.at(last, [is_lost, arrive = std::move(arrive)] {
    if (!is_lost()) arrive();
  });
}

void connection::deliver(const flight_ptr& f) {
  if (host_ == nullptr) return;
  host_->receive([self = shared_from_this(), f] {
    if (f->asked == nullptr) return;
    std::erase(self->flights_, f);
    f->answer();
    store_call& asked = *std::exchange(f->asked, nullptr);
    self->net_.observer_.on_answer(*self, f->verb, asked, f->asked_at);
    asked.on_answer(asked);
  });
}

void connection::give_up_all() {
  std::vector<flight_ptr> given_up;
  given_up.swap(flights_);
  for (const flight_ptr& f : given_up) {
    store_call& asked = *std::exchange(f->asked, nullptr);
    asked.status = f->is_sent && !is_read(f->verb) ? store_status::unknown : store_status::unavailable;
    asked.on_answer(asked);
  }
}

void connection::connect() {
  is_connected_ = false;
  ++epoch_;
  pipe_ = std::make_shared<pipe>();
  send(direction::up, link::members, [self = shared_from_this(), e = epoch_] { self->on_hello(e); });
  net_.queue_.after(net_.options_.patience, [self = shared_from_this(), e = epoch_] {
    if (self->host_ == nullptr) return;
    self->host_->receive([self, e] {
      if (self->host_ == nullptr || self->is_connected_ || self->epoch_ != e) return;
      self->give_up_all();
      if (self->host_ != nullptr) self->connect();
    });
  });
}

void connection::on_welcome(std::uint64_t epoch) {
  if (epoch != epoch_ || is_connected_) return;
  is_connected_ = true;
  const std::vector<flight_ptr> waiting = flights_;
  for (const flight_ptr& f : waiting) transmit(f);
}

void connection::break_off(std::uint64_t epoch) {
  if (epoch != epoch_ || host_ == nullptr) return;
  is_connected_ = false;
  ++epoch_;  // nothing of the old one is delivered
  give_up_all();
  net_.queue_.after(connect_again_after, [self = shared_from_this(), e = epoch_] {
    if (self->host_ == nullptr) return;
    self->host_->receive([self, e] {
      if (self->host_ != nullptr && self->epoch_ == e) self->connect();
    });
  });
}

// The node takes its connection for dead when a call has waited for so long.
void connection::watch() {
  if (std::exchange(is_watching_, true)) return;
  net_.queue_.at(flights_.front()->since + net_.options_.patience, [self = shared_from_this(), e = epoch_] {
    if (self->host_ == nullptr) return;
    self->host_->receive([self, e] {
      self->is_watching_ = false;
      if (self->host_ == nullptr || self->flights_.empty() || !self->is_connected_) return;
      if (self->epoch_ == e && self->flights_.front()->since + self->net_.options_.patience <= self->net_.queue_.now())
        return self->break_off(e);
      self->watch();
    });
  });
}

void connection::close() {
  host_ = nullptr;
  give_up_all();
  is_connected_ = false;
  if (has_lost_power_) {
    is_accepting_ = is_accepting_ && keeps_;
    net_.queue_.after(net_.options_.silence, [self = shared_from_this()] { self->on_leave(); });
    return;
  }
  // the end of the connection follows all that was sent, unless it is lost
  const auto& arrivals = pipe_->last.at(index(direction::up));
  const nanos last = *std::max_element(arrivals.begin(), arrivals.end());
  const bool is_cut = net_.places_[place_].is_cut.at(index(direction::up));
  const nanos when = is_cut ? net_.queue_.now() + net_.options_.silence : net_.queue_.now() + net_.delay_of(place_);
  net_.queue_.at(std::max(last + 1, when), [self = shared_from_this()] { self->on_leave(); });
}

// --- the store's end

void connection::arrive(const flight_ptr& f) {
  if (!is_accepting_ || f->epoch != accepted_ || net_.is_down_ || leaves_ || std::exchange(f->has_arrived, true))
    return;
  net_.observer_.on_arrived(*this, f->verb, f->remote());
  carried_.push_back(f);
  net_.server_.catch_up(net_.queue_.now());
  f->carry_out(*backend_);
}

void connection::on_carried(flight& f) {
  if (is_gone_) return;
  const flight_ptr self = f.shared_from_this();
  std::erase(carried_, self);
  net_.observer_.on_carried(*this, f.verb, f.remote());
  if (is_accepting_ && f.epoch == accepted_ && f.epoch == epoch_ && !net_.is_down_ && !leaves_)
    send(direction::down, link_of(f.verb), [of = shared_from_this(), self] { of->deliver(self); });
  check_idle();
}

void connection::on_hello(std::uint64_t epoch) {
  if (leaves_ || epoch <= accepted_) return;
  if (net_.is_down_) {
    send(direction::down, link::members, [self = shared_from_this(), epoch] {
      if (self->host_ != nullptr) self->host_->receive([self, epoch] { self->break_off(epoch); });
    });
    return;
  }
  accepted_ = to_welcome_ = epoch;
  is_accepting_ = true;
  check_idle();
}

// Goes on if the server has carried out all calls of an earlier connection.
void connection::check_idle() {
  if (!carried_.empty()) return;
  if (leaves_) return leave_server();
  if (to_welcome_ == 0) return;
  const std::uint64_t epoch = std::exchange(to_welcome_, 0);
  if (epoch != epoch_) return;
  send(direction::down, link::members, [self = shared_from_this(), epoch] {
    if (self->host_ != nullptr) self->host_->receive([self, epoch] { self->on_welcome(epoch); });
  });
}

void connection::on_leave() {
  if (std::exchange(leaves_, true)) return;
  check_idle();
}

// A store is not closed within an answer of its own.
void connection::leave_server() {
  net_.queue_.at(net_.queue_.now(), [self = shared_from_this()] {
    if (std::exchange(self->is_gone_, true)) return;
    self->backend_->close();
    self->backend_.reset();
    self->net_.observer_.on_gone(*self);
    std::erase(self->net_.connections_, self);
  });
}

// --- the store of a process

class network_store final : public durable::store {
 public:
  network_store(network& n, unsigned place, std::string name, host& h)
      : net_{n}, place_{place}, name_{std::move(name)}, host_{h} {}
  ~network_store() override { close(); }

  int open(tickwheel::timer_service&) noexcept override {
    line_ = std::make_shared<connection>(net_, place_, name_, host_);
    net_.connections_.push_back(line_);
    net_.current_[place_] = line_;
    net_.observer_.on_opened(*line_);
    return 0;
  }
  void close() noexcept override {
    if (line_ == nullptr) return;
    const auto leaving = std::exchange(line_, nullptr);
    leaving->close();
  }
  std::string_view problem() const noexcept override { return "the simulated network"; }

  void join(durable::join_call& c) noexcept override { ask<durable::join_call, &store::join>(store_verb::join, c); }
  void renew(durable::renew_call& c) noexcept override {
    ask<durable::renew_call, &store::renew>(store_verb::renew, c);
  }
  void bury(durable::bury_call& c) noexcept override { ask<durable::bury_call, &store::bury>(store_verb::bury, c); }
  void acquire(durable::acquire_call& c) noexcept override {
    ask<durable::acquire_call, &store::acquire>(store_verb::acquire, c);
  }
  void release(durable::release_call& c) noexcept override {
    ask<durable::release_call, &store::release>(store_verb::release, c);
  }
  void load(durable::load_call& c) noexcept override { ask<durable::load_call, &store::load>(store_verb::load, c); }
  void begin(durable::begin_call& c) noexcept override {
    ask<durable::begin_call, &store::begin>(store_verb::begin, c);
  }
  void finish(durable::finish_call& c) noexcept override {
    ask<durable::finish_call, &store::finish>(store_verb::finish, c);
  }
  void recover(durable::recover_call& c) noexcept override {
    ask<durable::recover_call, &store::recover>(store_verb::recover, c);
  }
  void put(durable::put_call& c) noexcept override { ask<durable::put_call, &store::put>(store_verb::put, c); }
  void cancel(durable::cancel_call& c) noexcept override {
    ask<durable::cancel_call, &store::cancel>(store_verb::cancel, c);
  }
  void revive(durable::revive_call& c) noexcept override {
    ask<durable::revive_call, &store::revive>(store_verb::revive, c);
  }
  void get(durable::get_call& c) noexcept override { ask<durable::get_call, &store::get>(store_verb::get, c); }
  void list(durable::list_call& c) noexcept override { ask<durable::list_call, &store::list>(store_verb::list, c); }
  void purge(durable::purge_call& c) noexcept override {
    ask<durable::purge_call, &store::purge>(store_verb::purge, c);
  }

 private:
  template <class Call, void (durable::store::*Verb)(Call&) noexcept>
  void ask(store_verb v, Call& c) {
    line_->call<Call, Verb>(v, c);
  }

  network& net_;
  const unsigned place_;
  const std::string name_;
  host& host_;
  std::shared_ptr<connection> line_;
};

// --- the network

network::network(event_queue& q, machine& server, std::shared_ptr<durable::memory_database> d, const network_options& o,
                 observer& w)
    : queue_{q},
      server_{server},
      database_{std::move(d)},
      options_{o},
      observer_{w},
      places_(o.places),
      current_(o.places) {}

std::unique_ptr<durable::store> network::make_store(unsigned place, std::string name, host& h) {
  return std::make_unique<network_store>(*this, place, std::move(name), h);
}

// One message in 200 takes much longer.
nanos network::delay_of(unsigned place) {
  site& at = places_[place];
  tickwheel::detail::splitmix64 random{options_.seed ^
                                       (place * 0x9e3779b97f4a7c15U + at.messages++ * 0xd1342543de82ef95U)};
  const auto span = static_cast<std::uint64_t>(options_.jitter);
  nanos delay = options_.delay + static_cast<nanos>(random.next() % (span + 1)) + at.slower;
  if (!is_calm_ && random.next() % 200 == 0) delay += static_cast<nanos>(random.next() % (50 * (span + 1)));
  return delay;
}

void network::cut(unsigned place, direction d, bool on) { places_[place].is_cut.at(index(d)) = on; }

void network::lose_next(unsigned place, link l, direction d) { places_[place].loses.at(index(d)).at(index(l)) = true; }

void network::lose_power(unsigned place, bool keeps) {
  const auto line = current_[place].lock();
  if (line == nullptr) return;
  line->has_lost_power_ = true;
  line->keeps_ = keeps;
}

void network::reset(unsigned place) {
  const auto line = current_[place].lock();
  if (line == nullptr || line->host_ == nullptr) return;
  line->host_->receive([line, e = line->epoch_] { line->break_off(e); });
}

void network::crash_server(bool keeps) {
  is_down_ = true;
  for (unsigned p = 0; p != places_.size(); ++p) {
    const auto line = current_[p].lock();
    if (line == nullptr || line->host_ == nullptr || !line->is_connected_) continue;
    if (keeps) {
      is_down_ = false;
      for (const auto& f : std::vector<connection::flight_ptr>{line->flights_})
        if (f->is_sent) line->arrive(f);
      is_down_ = true;
    }
    line->is_accepting_ = false;
    if (places_[p].is_cut.at(index(direction::down))) continue;
    queue_.after(delay_of(p), [line, e = line->epoch_] {
      if (line->host_ != nullptr) line->host_->receive([line, e] { line->break_off(e); });
    });
  }
}

}  // namespace simulation
