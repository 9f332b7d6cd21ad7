#include "server_store.hpp"

#include "link/effective_options.hpp"
#include "link/host_names.hpp"
#include "works/works.hpp"

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace tickwheel::durable {

namespace postgres {

using namespace std::chrono_literals;

namespace {

// `close` waits so long for all that runs, and again for the end of the session
constexpr auto close_patience = 500ms;

// what tickwheel_schedule tells the nodes, before the number of a partition
constexpr std::string_view scheduled_in = "scheduled in ";

// what a release tells them, before the session that was handed partitions; 0: they are free
constexpr std::string_view released_to = "released to ";

// what a renewal tells them, before its session, if the node starts tasks from now on, or no longer
constexpr std::string_view changed = "changed: ";

// Returns the number that a notification ends with.
std::optional<std::uint64_t> number_after(std::string_view words, std::string_view payload) {
  if (!payload.starts_with(words)) return std::nullopt;
  payload.remove_prefix(words.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(payload.data(), payload.data() + payload.size(), number);
  return error == std::errc{} && end == payload.data() + payload.size() ? std::optional{number} : std::nullopt;
}

// libpq repeats the text that it does not understand, which may be a part of the password. The name of an option or a service is none.
std::string without_password(std::string_view why) {
  constexpr std::array names{"invalid connection option", "invalid URI query parameter", "definition of service"};
  if (std::none_of(names.begin(), names.end(), [&](const char* name) { return why.starts_with(name); }))
    why = why.substr(0, why.find('"'));
  while (!why.empty() && (why.back() == '\n' || why.back() == ' ' || why.back() == ':')) why.remove_suffix(1);
  return std::string{why};
}

/// Calls `is_valid` for the parts of a list. Returns true if all are.
template <class F>
bool all_of_list(std::string_view list, F is_valid) {
  for (;;) {
    const auto comma = list.find(',');
    if (!is_valid(list.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

// Such a host is the rest of a password, in postgresql://user:pass@word@host. A socket's folder or abstract name may have an @.
bool is_host(std::string_view host) noexcept {
  return host.starts_with('/') || host.find('@', 1) == std::string_view::npos;
}

// Reads a number as libpq does. No value: it is none.
std::optional<long> integer_of(std::string_view number) {
  const std::string text{number};
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  const bool is_whole =
      end != text.c_str() && errno == 0 && std::in_range<int>(value) &&
      text.find_first_not_of(" \t\n\r\f\v", static_cast<std::size_t>(end - text.c_str())) == std::string::npos;
  return is_whole ? std::optional{value} : std::nullopt;
}

// Empty: the default.
bool is_port(std::string_view port) {
  constexpr long largest = 65'535;
  const auto number = integer_of(port);
  return port.empty() || (number && *number >= 1 && *number <= largest);
}

// of a TCP connection, which libpq reads only when it connects
bool is_number_of_tcp(std::string_view keyword) noexcept {
  return keyword.starts_with("keepalives") || keyword == "tcp_user_timeout";
}

// libpq checks most values before it makes a connection. It then says that it made no attempt. Here it never makes one: the address,
// which counts more than the host, is none. The other words keep it from asking the system who the user is, and from reading passwords.
std::string invalid_value(const std::string& conninfo) {
  constexpr std::array keywords{
      "dbname", "host", "hostaddr", "port", "user", "password", static_cast<const char*>(nullptr)};
  const std::array<const char*, keywords.size()> values{conninfo.c_str(), "-", "-", "1", "-", "-", nullptr};
  if (PQpingParams(keywords.data(), values.data(), 1) != PQPING_NO_ATTEMPT) return {};
  const std::unique_ptr<PGconn, void (*)(PGconn*)> failed{PQconnectStartParams(keywords.data(), values.data(), 1),
                                                          &PQfinish};
  return without_password(failed != nullptr ? PQerrorMessage(failed.get()) : "out of memory");
}

// Returns what makes a conninfo invalid, as far as that can be told without a connection. Empty: nothing does.
std::string problem_of(const std::string& conninfo) {
  char* why = nullptr;
  const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> parsed{PQconninfoParse(conninfo.c_str(), &why),
                                                                              &PQconninfoFree};
  if (parsed == nullptr) {
    const std::unique_ptr<char, void (*)(void*)> text{why, &PQfreemem};
    return without_password(why != nullptr ? why : "out of memory");
  }
  const effective_options options{conninfo};
  std::string problem;
  options.for_each([&](std::string_view keyword, std::string_view value) {
    if (!problem.empty()) return;
    if (keyword == "host" && !all_of_list(value, is_host)) problem = "a host has an @; write that of a password as %40";
    if (keyword == "port" && !all_of_list(value, is_port)) problem = "a port is not a number from 1 to 65,535";
    if (keyword == "replication") problem = "a node needs an ordinary connection: leave replication out";
    if (is_number_of_tcp(keyword) && !integer_of(value)) problem = std::string{keyword} + " is not a whole number";
  });
  if (problem.empty()) problem = problem_of_hosts(options);
  return problem.empty() ? invalid_value(conninfo) : problem;
}

// that are remembered: each verb may fail, and for several reasons
constexpr std::size_t most_lines = 64;

constexpr std::size_t index_of(link_role role) noexcept { return static_cast<std::size_t>(role); }

}  // namespace

server_store::server_store(std::string conninfo, postgres_options options) : conninfo_{std::move(conninfo)} {
  state_.options = std::move(options);
}

server_store::~server_store() { close(); }

const char* server_store::invalid_field() {
  if (conninfo_.find('\0') != std::string::npos) return "postgres_store: the conninfo has a NUL";
  if (const std::string problem = problem_of(conninfo_); !problem.empty()) {
    invalid_ = "postgres_store: the conninfo is malformed: " + problem;
    return invalid_.c_str();
  }
  return state_.options.problem();
}

int server_store::open(timer_service& timers) noexcept {
  tickwheel::detail::require(timers_ == nullptr, "store::open of an open store");
  const char* invalid = invalid_field();
  uv_loop_t* const loop = timers.loop();
  if (invalid == nullptr && loop == nullptr) invalid = "postgres_store: the timer_service is not on a libuv loop";
  if (invalid != nullptr) {
    state_.problem = invalid;
    return UV_EINVAL;
  }
  fork_ = {};
  state_.session = 0;
  has_joined_ = is_lost_ = is_busy_ = is_awake_ = has_doubts_ = false;
  timer_.emplace(timers, *this);
  connections_.emplace(timers, *loop, conninfo_, state_, static_cast<connector::client&>(*this));
  int error = timer_->open();
  if (error == 0) error = connections_->open();
  if (error != 0) {
    connections_.reset();
    timer_.reset();
    return error;
  }
  timers_ = &timers;
  return 0;
}

void server_store::close() noexcept {
  if (timers_ == nullptr || is_closing_) return;
  is_closing_ = true;
  if (fork_.is_in_child()) {
    forget();
    return;
  }
  if (connections_->is_up()) leave();
  connections_->stop();
  for (lane& l : lanes_) l.clear();
  timer_.reset();

  // an answer that was not delivered had its effect
  for (open_call& c : calls_) {
    if (!c.of->has_ended())
      c.of->lose();
    else if (c.of->status() == store_status::ok)
      c.of->end(only_reads(c.of->verb()) ? store_status::unavailable : store_status::unknown);
  }
  while (!calls_.empty()) {
    const std::unique_ptr<work> first = std::move(calls_.front().of);
    calls_.pop_front();
    if (first->call() == nullptr) continue;
    first->call()->status = first->status();
    first->call()->on_answer(*first->call());
  }
  connections_.reset();
  timers_ = nullptr;
  is_closing_ = false;
}

void server_store::forget() noexcept {
  for (lane& l : lanes_) l.clear();
  calls_.clear();
  timer_.reset();
  connections_.reset();
  timers_ = nullptr;
  is_closing_ = false;
}

// Waits for what runs, and ends the session, so that the node may join anew at once.
void server_store::leave() noexcept {
  std::string script;
  const auto in_patience = [] { return std::chrono::steady_clock::now() + close_patience; };
  const auto deadline = in_patience();
  for (link& l : connections_->links())
    if (connections_->is_up()) (void)l.wait(deadline);
  link& clock = connections_->clock_link();
  if (!connections_->is_up() || !clock.is_idle()) return;
  const std::string session = std::to_string(state_.session);
  const auto links = connections_->links();
  const bool all_have_ended = std::all_of(links.begin(), links.end(), [](const link& l) { return l.is_idle(); });
  // a backend that hangs must not carry anything out later
  if (!all_have_ended)
    script +=
        "select pg_terminate_backend(l.pid::integer, 200) from links l join pg_stat_activity a on a.pid = l.pid and "
        "(extract(epoch from a.backend_start) * 1000000)::bigint = l.started where l.session = " +
        session + " and l.pid <> pg_backend_pid();";
  script += "delete from nodes where session = " + session +
            "; update parts set session = null where session = " + session +
            "; delete from links where session = " + session;
  clock.run(script);
  if (!clock.wait(in_patience()) || !clock.is_idle() || connections_->has_script_failed()) return;
  state_.own_sessions.clear();
  state_.backends.clear();
}

void server_store::join(join_call& call) noexcept {
  if (fork_.is_in_child()) return;
  state_.lease = call.lease;
  if (timers_ == nullptr || is_closing_ || connections_->is_up()) return push(store_verb::join, call);
  calls_.push_back({make_work(store_verb::join, call, state_), true});
  is_busy_ = true;
  connections_->start();
  is_busy_ = false;
  arm();
}

void server_store::push(store_verb verb, store_call& call) noexcept {
  tickwheel::detail::require(timers_ != nullptr, "a verb of a closed store");
  if (fork_.is_in_child()) return;
  const bool can_be_sent = !is_closing_ && connections_->is_up() && (has_joined_ || verb == store_verb::join);
  add(make_work(verb, call, state_), can_be_sent);
}

void server_store::add(std::unique_ptr<work> of, bool can_be_sent) noexcept {
  work& added = *of;
  calls_.push_back({std::move(of)});
  if (!can_be_sent) {
    added.lose();
    if (!is_closing_) wake();
    return;
  }
  lanes_[index_of(role_of(added.verb()))].push(added);
  const bool was_busy = std::exchange(is_busy_, true);
  pump(role_of(added.verb()));
  is_busy_ = was_busy;
  arm();
}

void server_store::pump(link_role role) noexcept {
  if (is_closing_) return;
  for (link& l : connections_->links())
    if (l.role() == role && connections_->is_up()) lanes_[index_of(role)].pump(l, now());
}

void server_store::pump() noexcept {
  for (const link_role role : {link_role::starts, link_role::requests, link_role::clock}) pump(role);
}

void server_store::on_transaction(link& over, transaction& done) noexcept {
  lane& on = lanes_[index_of(over.role())];
  work& of = on.take(over);
  const auto patience = state_.options.repeat_timeout;
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it outlives `done`
  const failure error = done.error();
  if (error.is_set())
    of.fail(error, now(), patience);
  else
    of.take(done, now(), patience);
  if (of.has_ended()) {
    on.remove(of);
    const bool is_ok = of.status() == store_status::ok;
    if (of.verb() == store_verb::join && is_ok && state_.session != 0) has_joined_ = true;
    if (of.verb() == store_verb::recover && is_ok && of.call() != nullptr)
      recover_later(static_cast<const recover_call&>(*of.call()).session);
  } else {
    on.keep(of);
  }
  if (error.is_set()) {
    if (const remedy r = error.what_helps(); r == remedy::none || r == remedy::isolate)
      report("a " + std::string{to_string(of.verb())} + " failed: " + error.text());
    else
      state_.problem = error.text();
  }
  if (is_closing_) return;
  if (error.what_helps() == remedy::reconnect) return connections_->drop(error);
  pump(over.role());
  deliver();
  arm();
}

void server_store::on_up() noexcept {
  if (std::exchange(is_lost_, false)) report("connected");
  last_lines_.clear();
  for (open_call& c : calls_)
    if (std::exchange(c.waits_for_join, false)) lanes_[index_of(link_role::clock)].push(*c.of);
  pump();
  deliver();
  arm();
}

void server_store::on_failed(const failure& why, int uv_code) noexcept {
  is_lost_ = true;
  report(why.text());
  const bool is_final = uv_code != 0 && !has_joined_;
  for (open_call& c : calls_) {
    if (!std::exchange(c.waits_for_join, false)) continue;
    if (is_final) static_cast<join_call&>(*c.of->call()).error = uv_code;
    c.of->end(is_final ? store_status::ok : store_status::unavailable);
  }
  if (is_final) connections_->stop();
  if (!is_closing_) wake();
}

void server_store::on_down(const failure& why) noexcept {
  is_lost_ = true;
  report("the connection is lost: " + why.text());
  end_all();
  if (is_closing_) return;
  has_doubts_ = true;
  doubt_until_ = now() + state_.options.repeat_timeout;
  wake();
}

void server_store::end_all() noexcept {
  for (lane& l : lanes_) l.clear();
  for (open_call& c : calls_)
    if (!c.of->has_ended() && !c.waits_for_join) c.of->lose();
}

void server_store::on_former_gone() noexcept {
  has_doubts_ = false;
  if (!is_closing_) wake();
}

// A program has scheduled a task in a partition, or asks for a sign of life of a session. Or a node has released partitions, is new, or
// leaves.
void server_store::on_notification(std::string_view payload) noexcept {
  if (is_closing_ || !has_joined_) return;
  if (payload == std::to_string(state_.session)) return beat();
  if (listener_ == nullptr) return;
  if (const auto partition = number_after(scheduled_in, payload))
    return listener_->on_scheduled(static_cast<partition_number>(*partition));
  const auto owner = number_after(released_to, payload), other = number_after(changed, payload);
  const bool is_for_us = owner ? *owner == 0 || *owner == state_.session : other && *other != state_.session;
  if (is_for_us) listener_->on_released();
}

// One sign of life that is under way may be older than the question. A second one answers all questions.
void server_store::beat() noexcept {
  const auto is_beat = [](const open_call& c) {
    return c.of->verb() == store_verb::renew && c.of->call() == nullptr && !c.of->has_ended();
  };
  if (std::count_if(calls_.begin(), calls_.end(), is_beat) < 2) add(make_beat(state_.session), true);
}

void server_store::on_warning(const std::string& what) noexcept { report(what); }

// The same line is written once. With several hosts the lines of an outage take turns, so the last ones are remembered.
void server_store::report(const std::string& line) noexcept {
  state_.problem = line;
  if (std::find(last_lines_.begin(), last_lines_.end(), line) != last_lines_.end()) return;
  if (last_lines_.size() == most_lines) last_lines_.pop_front();
  last_lines_.push_back(line);
  const std::string text = "postgres_store: " + line;
  if (state_.options.log)
    state_.options.log(text);
  else
    std::fprintf(stderr, "tickwheel: %s\n", text.c_str());
}

// A recovery was answered, so what was due has been recovered. That of a former session has recovered nothing.
void server_store::recover_later(session_number session) noexcept {
  if (session != state_.session) return;
  if (auto rest = make_recover_later(state_)) add(std::move(rest), !is_closing_ && connections_->is_up());
}

// Answers of one verb keep the order of its calls.
void server_store::deliver() noexcept {
  if (is_closing_) return;
  if (is_busy_) return wake();
  is_busy_ = true;
  const bool holds_doubts = has_doubts_ && now() < doubt_until_;
  std::array<bool, store_verbs> is_held{};
  auto c = calls_.begin();
  for (std::size_t left = calls_.size(); left != 0; --left) {
    work& w = *c->of;
    bool& held = is_held[static_cast<std::size_t>(w.verb())];
    const bool is_ready = w.has_ended() && !(holds_doubts && w.status() == store_status::unknown);
    if (w.call() != nullptr && (held || !is_ready)) {
      held = true;
      ++c;
      continue;
    }
    if (!w.has_ended()) {
      ++c;
      continue;
    }
    const std::unique_ptr<work> ended = std::move(c->of);
    c = calls_.erase(c);
    if (ended->call() == nullptr) continue;
    ended->call()->status = ended->status();
    ended->call()->on_answer(*ended->call());
  }
  is_busy_ = false;
}

steady_time server_store::now() noexcept {
  if (timers_->is_open()) last_reading_ = timers_->read_clock();
  return last_reading_;
}

void server_store::wake() noexcept {
  is_awake_ = true;
  arm();
}

// It runs with each answer. An expiry that is too early finds what is left.
void server_store::arm() noexcept {
  if (is_closing_) return;
  if (is_awake_) return timer_->set_at_latest(0ns);
  std::optional<steady_time> next;
  const steady_time time = now();
  const auto consider = [&](steady_time t) { next = next ? std::min(*next, t) : t; };
  if (has_doubts_) consider(doubt_until_);
  for (std::size_t i = 0; i != link_roles; ++i) {
    const lane& l = lanes_[i];
    if (const auto since = l.running_since()) consider(*since + state_.options.answer_timeout / 2 * 3);
    if (const auto t = l.next_time(time, links_of(static_cast<link_role>(i)))) consider(*t);
  }
  next ? timer_->set_at_latest(std::max<std::chrono::nanoseconds>(*next - time, 0ns)) : timer_->unset();
}

void server_store::on_timer() noexcept {
  if (fork_.is_in_child()) return;
  is_awake_ = false;
  if (has_doubts_ && now() >= doubt_until_) has_doubts_ = false;
  const auto is_silent = [&](const lane& l) {
    const auto since = l.running_since();
    return since && now() - *since >= state_.options.answer_timeout / 2 * 3;
  };
  if (std::any_of(lanes_.begin(), lanes_.end(), is_silent)) connections_->drop({{}, "the server does not answer"});
  pump();
  deliver();
  arm();
}

}  // namespace postgres

const char* postgres_options::problem() const noexcept {
  constexpr std::chrono::nanoseconds shortest = std::chrono::milliseconds{10};
  constexpr std::chrono::nanoseconds longest = std::chrono::days{24};  // the server has 31 bits for milliseconds
  if (schema.empty() || schema.size() > 63) return "postgres_options::schema does not have 1 to 63 bytes";
  if (schema.find('\0') != std::string::npos) return "postgres_options::schema has a NUL";
  if (schema.starts_with("pg_")) return "postgres_options::schema begins with pg_, as only PostgreSQL's own may";
  if (schema == "$user") return "postgres_options::schema is $user, which stands for the name of the role";
  if (partitions == 0 || partitions > 1024) return "postgres_options::partitions is not 1 to 1,024";
  if (connect_timeout < shortest) return "postgres_options::connect_timeout is less than 10 ms";
  if (answer_timeout < shortest) return "postgres_options::answer_timeout is less than 10 ms";
  if (repeat_timeout < shortest) return "postgres_options::repeat_timeout is less than 10 ms";
  if (connect_timeout > longest) return "postgres_options::connect_timeout is more than 24 days";
  if (answer_timeout > longest) return "postgres_options::answer_timeout is more than 24 days";
  if (repeat_timeout > longest) return "postgres_options::repeat_timeout is more than 24 days";
  return nullptr;
}

std::unique_ptr<store> postgres_store(std::string conninfo, postgres_options options) {
  return std::make_unique<postgres::server_store>(std::move(conninfo), std::move(options));
}

}  // namespace tickwheel::durable
