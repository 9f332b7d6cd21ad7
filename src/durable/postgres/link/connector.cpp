#include "connector.hpp"

#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

namespace tickwheel::durable::postgres {

using namespace std::chrono_literals;

namespace {

constexpr backoff_options between_tries{.base = 50ms, .cap = 2s};

// from one look at backends that shall end to the next
constexpr std::chrono::nanoseconds end_pause = 5ms;

// tables are made by one of several nodes, and the others look again
constexpr unsigned most_makes = 5;

// scripts answer text
std::int64_t integer(const rows& of, int row, int column) noexcept {
  const std::string_view text = of.bytes(row, column);
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
bool boolean(const rows& of, int row, int column) noexcept { return of.bytes(row, column) == "t"; }

int column(setting s) noexcept { return static_cast<int>(s); }

}  // namespace

connector::connector(timer_service& timers, uv_loop_t& loop, const std::string& conninfo, node_state& state,
                     client& of) noexcept
    : timers_{timers},
      loop_{loop},
      conninfo_{conninfo},
      state_{state},
      client_{of},
      links_{{{*this, link_role::starts},
              {*this, link_role::requests},
              {*this, link_role::requests},
              {*this, link_role::clock}}},
      names_{loop, *this},
      timer_{timers, *this},
      pauses_{between_tries} {}

void connector::start() noexcept {
  if (step_ == step::stopped) try_to_connect();
}

void connector::stop() noexcept {
  step_ = step::stopped;
  timer_.unset();
  close_links();
  has_warned_ = false;
  pauses_.reset();
}

void connector::close_links() noexcept {
  names_.stop();
  for (link& l : links_) l.close();
  state_.former_backends.insert(state_.former_backends.end(), state_.backends.begin(), state_.backends.end());
  state_.backends.clear();
}

void connector::try_to_connect() noexcept {
  made_ = prepared_ = 0;
  give_up_at_ = now() + state_.options.connect_timeout;
  timer_.set(state_.options.connect_timeout);
  step_ = step::names;
  names_.start(conninfo_);
}

// libpq takes the first host that answers. One that never does must not keep it from the others: each try begins with another.
void connector::on_resolved(host_list hosts) noexcept {
  if (fork_.is_in_child()) return;
  hosts_ = std::move(hosts);
  if (!hosts_.empty())
    std::rotate(hosts_.begin(), hosts_.begin() + static_cast<std::ptrdiff_t>(tries_ % hosts_.size()), hosts_.end());
  step_ = step::clock;
  connect(clock_link());
}

void connector::on_unresolved(const std::string& why) noexcept { fail({{}, why}); }

void connector::connect(link& on) noexcept {
  // a later word counts: the user's own, and then the addresses of the hosts
  const std::string patience =
      std::to_string(std::chrono::ceil<std::chrono::milliseconds>(state_.options.answer_timeout).count());
  std::vector<std::pair<const char*, const char*>> words{
      {"target_session_attrs", "read-write"}, {"keepalives_idle", "5"},
      {"keepalives_interval", "2"},           {"keepalives_count", "3"},
      {"tcp_user_timeout", patience.c_str()}, {"fallback_application_name", "tickwheel"},
      {"dbname", conninfo_.c_str()}};
  std::string hosts, addresses, ports;
  for (const host_address& h : hosts_) {
    const char* const comma = &h == &hosts_.front() ? "" : ",";
    hosts += comma + h.host;
    addresses += comma + h.address;
    ports += comma + h.port;
  }
  if (!hosts_.empty()) {
    words.emplace_back("host", hosts.c_str());
    words.emplace_back("hostaddr", addresses.c_str());
    words.emplace_back("port", ports.c_str());
  }
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : words) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  on.connect(loop_, keywords.data(), values.data());
}

void connector::run(step next, const std::string& script) noexcept {
  step_ = next;
  clock_link().run(script);
}

void connector::on_connected(link& on) noexcept {
  if (on.server_version() < oldest_server)
    return fail(failure::final(UV_ENOTSUP, "the server is PostgreSQL " + std::to_string(on.server_version() / 10000) +
                                               "; it must be 14 or newer"));
  if (on.role() == link_role::clock) step_ = step::settings;
  on.run(settings_script(state_.options, on.role()));
}

void connector::on_script(link& on, const std::vector<result>& results, const failure& error) noexcept {
  has_script_failed_ = error.is_set();
  if (step_ == step::make) return on_made(error);
  if (step_ == step::up) return;  // the store says farewell
  if (error.is_set()) {
    if ((step_ == step::look || step_ == step::meta) && error.sqlstate() == "42501")
      return refuse_rights(error.text() + "; ");
    if (step_ == step::meta && error.is_of("42"))
      return fail(failure::final(
          UV_EFTYPE, "schema " + state_.options.schema + " has tables of another application: " + error.text()));
    return fail(error);
  }
  const rows last{results.back()};
  if (on.role() != link_role::clock) {
    if (PQntuples(results.back().get()) != 0) return on_settings(on, last);
    return on_other_script(on);
  }
  switch (step_) {
    case step::settings:
      return on_settings(on, last);
    case step::look:
      return on_looked(last);
    case step::meta:
      return on_meta(last);
    case step::end:
      if (integer(last, 0, 0) != 0)
        return timer_.set(std::min<std::chrono::nanoseconds>(end_pause, give_up_at_ - now()));
      state_.former_backends.clear();
      return end_former();
    case step::lift:
      return run(step::statements, prepare_script(link_role::clock) + "listen " + quoted_name(state_.options.schema));
    case step::statements:
      step_ = step::others;
      for (link& l : links_)
        if (&l != &clock_link() && step_ == step::others) connect(l);
      return;
    case step::number:
      step_ = step::up;
      timer_.unset();
      pauses_.reset();
      return client_.on_up();
    default:
      return;
  }
}

void connector::on_settings(link& on, const rows& found) noexcept {
  if (const std::string problem = problem_of_encoding(found.bytes(0, column(setting::encoding))); !problem.empty())
    return fail(failure::final(UV_ENOTSUP, problem));
  const std::int64_t pid = integer(found, 0, column(setting::pid));
  const std::int64_t server = integer(found, 0, column(setting::server));
  if (pid != on.pid())
    return fail(
        failure::final(UV_ENOTSUP, "a pooler stands before the server; a node must connect to the server itself"));
  state_.backends.emplace_back(pid, integer(found, 0, column(setting::started)));
  if (on.role() != link_role::clock && server != server_) return fail({{}, "the hosts lead to different servers"});
  server_ = server;
  if (on.role() != link_role::clock) return on.run(prepare_script(on.role()));
  if (!std::exchange(has_warned_, true)) {
    if (found.bytes(0, column(setting::fsync)) == "off")
      client_.on_warning("fsync is off on the server: a crash of its machine loses tasks");
    if (found.bytes(0, column(setting::full_page_writes)) == "off")
      client_.on_warning("full_page_writes is off on the server: a crash of its machine may damage the tables");
  }
  run(step::look, look_script(state_.options));
}

void connector::on_looked(const rows& found) noexcept {
  has_schema_ = boolean(found, 0, 0);
  version_ = 0;
  if (boolean(found, 0, 1)) return run(step::meta, meta_script(state_.options));
  if (made_++ == most_makes)
    return fail(failure::final(UV_EFTYPE, "schema " + state_.options.schema + " has tables of another application"));
  run(step::make, make_script(state_.options, has_schema_, 0));
}

void connector::on_meta(const rows& found) noexcept {
  const std::string schema = "schema " + state_.options.schema;
  if (found.size() != 1) return fail(failure::final(UV_EFTYPE, schema + " is damaged: its table meta has no row"));
  version_ = static_cast<int>(integer(found, 0, 0));
  if (version_ > schema_version)
    return fail(failure::final(UV_ENOTSUP, schema + " has version " + std::to_string(version_) +
                                               "; this tickwheel knows up to " + std::to_string(schema_version)));
  if (version_ < schema_version) {
    if (made_++ == most_makes || version_ < 1)
      return fail(failure::final(UV_EFTYPE, schema + " has version " + std::to_string(version_) + ", which is none"));
    return run(step::make, make_script(state_.options, true, version_));
  }
  if (!boolean(found, 0, 2)) return refuse_rights({});
  state_.partitions = static_cast<std::uint16_t>(integer(found, 0, 1));
  end_former();
}

void connector::refuse_rights(const std::string& of_server) noexcept {
  fail({"42501", "this role may not use the tables of schema " + state_.options.schema + ": " + of_server +
                     advice_on_rights(state_.options)});
}

void connector::on_made(const failure& error) noexcept {
  if (error.is_set() && !is_outdated(error)) {
    if (error.sqlstate() == "42501")
      return fail({"42501", "this role may not make schema " + state_.options.schema + ": " + error.text()});
    return fail(error);
  }
  run(step::look, look_script(state_.options));
}

void connector::end_former() noexcept {
  if (!state_.former_backends.empty()) return run(step::end, end_script(state_.former_backends));
  client_.on_former_gone();
  if (step_ != step::stopped) run(step::lift, lift_script());
}

void connector::on_other_script(link&) noexcept {
  if (++prepared_ != links_.size() - 1) return;
  std::string script = "select 1";
  if (state_.session != 0) {
    // the former ones are gone
    script = "delete from links where session = " + std::to_string(state_.session) + ";";
    for (const auto& [pid, started] : state_.backends)
      script += "insert into links select session, " + std::to_string(pid) + ", " + std::to_string(started) +
                " from nodes where session = " + std::to_string(state_.session) + ";";
  }
  run(step::number, script);
}

void connector::on_lost(link&, const failure& why) noexcept { drop(why); }

void connector::drop(const failure& why) noexcept {
  if (step_ != step::up) return fail(why);
  close_links();
  step_ = step::pausing;
  timer_.set(0ns);
  client_.on_down(why);
}

void connector::on_notification(link&, std::string_view payload) noexcept {
  if (step_ == step::up) client_.on_notification(payload);
}

void connector::fail(const failure& why) noexcept {
  close_links();
  ++tries_;
  step_ = step::pausing;
  timer_.set(std::min(pauses_.next(), state_.lease / 8));  // the others bury a node that is away for a lease
  client_.on_failed(why, why.uv_code());
}

tickwheel::clock::time_point connector::now() noexcept {
  if (timers_.is_open()) last_reading_ = timers_.read_clock();
  return last_reading_;
}

void connector::on_timer() noexcept {
  if (fork_.is_in_child()) return;
  if (step_ == step::pausing) return try_to_connect();
  if (now() >= give_up_at_) {
    const std::string patience =
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(state_.options.connect_timeout).count());
    return fail({{}, "the server did not let us in within " + patience + " ms"});
  }
  timer_.set(give_up_at_ - now());
  if (step_ == step::end && clock_link().is_idle()) end_former();
}

}  // namespace tickwheel::durable::postgres
