#include "link.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string_view>
#include <utility>

namespace tickwheel::durable::postgres {

namespace {

// Deletes a poll handle that the program has closed in a walk of its loop. libuv has finished with it when two iterations have ended: it
// closes handles in any order.
void delete_after_walk(uv_handle_t& poll, int iterations = 2) noexcept {
  auto* const sentinel = uv_backend_fd(poll.loop) >= 0 ? new (std::nothrow) uv_idle_t : nullptr;
  if (sentinel == nullptr) {
    if (uv_backend_fd(poll.loop) < 0) delete reinterpret_cast<uv_poll_t*>(&poll);  // uv_loop_close has ended the loop
    return;
  }
  uv_idle_init(poll.loop, sentinel);
  sentinel->data = &poll;
  const auto next = iterations == 2 ? [](uv_handle_t* closed) {
    auto& of = *static_cast<uv_handle_t*>(closed->data);
    delete reinterpret_cast<uv_idle_t*>(closed);
    delete_after_walk(of, 1);
  } : [](uv_handle_t* closed) {
    delete static_cast<uv_poll_t*>(closed->data);
    delete reinterpret_cast<uv_idle_t*>(closed);
  };
  uv_close(reinterpret_cast<uv_handle_t*>(sentinel), next);
}

}  // namespace

void link::connect(uv_loop_t& loop, const char* const* keywords, const char* const* values) noexcept {
  loop_ = &loop;
  fork_ = {};
  phase_ = phase::connecting;
  connection_.reset(PQconnectStartParams(keywords, values, 1));
  if (connection_ == nullptr) return lose({{}, "there is no memory for a connection"});
  PQsetErrorVerbosity(connection_.get(), PQERRORS_VERBOSE);  // a failure to connect then has its SQLSTATE
  PQsetNoticeReceiver(
      connection_.get(), [](void* self, const PGresult* notice) { static_cast<link*>(self)->take_notice(*notice); },
      this);
  if (PQstatus(connection_.get()) == CONNECTION_BAD) return lose(failure::of(*connection_));
  watch(UV_WRITABLE);
}

// A child of a fork has its parent's connection. It closes its copy of the descriptor first. So libpq cannot tell the server that the
// session ends, nor libuv the kernel that nobody polls the connection.
void link::close() noexcept {
  ++openings_;
  if (is_open() && fork_.is_in_child()) ::close(PQsocket(connection_.get()));
  unwatch();
  connection_.reset();
  phase_ = phase::closed;
  running_ = nullptr;
  script_results_.clear();
  script_error_ = {};
  farewell_ = {};
  lone_commit_ = {};
}

void link::lose(failure why) noexcept {
  if (running_ != nullptr && running_->error().is_of("57P")) why = running_->error();
  if (farewell_.is_set()) why = std::exchange(farewell_, {});
  close();
  client_.on_lost(*this, why);
}

void link::take_notice(const PGresult& notice) noexcept {
  const char* const severity = PQresultErrorField(&notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::string_view{severity} == "FATAL") farewell_ = failure::of(notice);
  if (tells_of_lone_commit(notice)) lone_commit_ = failure::of(notice);
}

// PQconnectPoll may close the descriptor and open another one, also with the same number. So it is not watched meanwhile.
void link::go_on_connecting() noexcept {
  unwatch();
  switch (PQconnectPoll(connection_.get())) {
    case PGRES_POLLING_READING:
      return watch(UV_READABLE);
    case PGRES_POLLING_WRITING:
      return watch(UV_WRITABLE);
    case PGRES_POLLING_OK:
      break;
    default:
      return lose(failure::of(*connection_));
  }
  if (PQsetnonblocking(connection_.get(), 1) != 0) return lose(failure::of(*connection_));
  phase_ = phase::idle;
  watch(UV_READABLE);
  if (phase_ == phase::idle) client_.on_connected(*this);
}

void link::watch(int events) noexcept {
  if (poll_ == nullptr) {
    auto* const made = new (std::nothrow) uv_poll_t;
    int error = made == nullptr ? UV_ENOMEM : uv_poll_init(loop_, made, PQsocket(connection_.get()));
    if (error != 0) {
      delete made;
      return lose({{}, std::string{"the connection cannot be watched: "} + uv_strerror(error)});
    }
    made->data = this;
    uv_unref(reinterpret_cast<uv_handle_t*>(made));
    poll_ = made;
    watched_ = 0;
  }
  if (watched_ == events) return;
  const int error =
      uv_poll_start(poll_, events, [](uv_poll_t* handle, int, int) { static_cast<link*>(handle->data)->on_ready(); });
  if (error != 0) return lose({{}, std::string{"the connection cannot be watched: "} + uv_strerror(error)});
  watched_ = events;
}

void link::unwatch() noexcept {
  if (poll_ == nullptr) return;
  auto* const handle = reinterpret_cast<uv_handle_t*>(std::exchange(poll_, nullptr));
  if (uv_is_closing(handle) == 0)
    uv_close(handle, [](uv_handle_t* closed) { delete reinterpret_cast<uv_poll_t*>(closed); });
  else
    delete_after_walk(*handle);
}

void link::on_ready() noexcept {
  if (fork_.is_in_child()) return close();
  if (phase_ == phase::connecting) return go_on_connecting();
  if (PQconsumeInput(connection_.get()) == 0) return lose(failure::of(*connection_));
  const std::uint64_t opening = openings_;
  take_results();
  if (opening != openings_) return;
  while (PGnotify* const notification = PQnotifies(connection_.get())) {
    const std::string payload = notification->extra;
    PQfreemem(notification);
    client_.on_notification(*this, payload);
    if (opening != openings_) return;
  }
  flush();
}

void link::flush() noexcept {
  switch (PQflush(connection_.get())) {
    case 0:
      return watch(UV_READABLE);
    case 1:
      return watch(UV_READABLE | UV_WRITABLE);
    default:
      return lose(failure::of(*connection_));
  }
}

void link::run(const std::string& script) noexcept {
  phase_ = phase::script;
  script_results_.clear();
  script_error_ = {};
  if (PQpipelineStatus(connection_.get()) != PQ_PIPELINE_OFF) PQexitPipelineMode(connection_.get());
  if (PQsendQuery(connection_.get(), script.c_str()) == 0) return lose(failure::of(*connection_));
  flush();
}

void link::run(transaction& of) noexcept {
  phase_ = phase::pipeline;
  running_ = &of;
  PGconn* const c = connection_.get();
  bool is_sent = PQpipelineStatus(c) != PQ_PIPELINE_OFF || PQenterPipelineMode(c) == 1;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  for (const transaction::step& step : of.steps()) {
    const int count = step.values.size();
    values.clear();
    lengths.clear();
    formats.assign(static_cast<std::size_t>(count), 1);
    for (int i = 0; i < count; ++i) {
      const std::string_view value = step.values.value(i);
      values.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
    }
    is_sent = is_sent &&
              PQsendQueryPrepared(c, name_of(step.what), count, values.data(), lengths.data(), formats.data(), 1) == 1;
  }
  is_sent = is_sent && PQpipelineSync(c) == 1;
  if (!is_sent) return lose(failure::of(*c));
  flush();
}

void link::take_results() noexcept {
  PGconn* const c = connection_.get();
  const std::uint64_t opening = openings_;
  while (opening == openings_ && is_running() && PQisBusy(c) == 0) {
    // In a pipeline a null ends each statement, and the sync follows all of them.
    if (!take_result(PQgetResult(c))) return;
  }
  // a server that ends the session says so while nothing runs
  if (opening == openings_ && phase_ == phase::idle && PQstatus(c) == CONNECTION_BAD) lose(failure::of(*c));
}

// Returns false if there is no more to take.
bool link::take_result(PGresult* taken) noexcept {
  result r{taken};
  if (phase_ == phase::script) {
    if (r == nullptr) {
      if (lone_commit_.is_set()) {
        lose(lone_commit_);
        return false;
      }
      phase_ = phase::idle;
      const auto results = std::exchange(script_results_, {});
      const auto error = std::exchange(script_error_, {});
      if (PQstatus(connection_.get()) == CONNECTION_BAD) {
        lose(error.is_set() ? error : failure::of(*connection_));
        return false;
      }
      client_.on_script(*this, results, error);
      return false;
    }
    if (PQresultStatus(r.get()) == PGRES_FATAL_ERROR) script_error_ = failure::of(*r);
    script_results_.push_back(std::move(r));
    return true;
  }
  if (r == nullptr) {
    if (PQstatus(connection_.get()) != CONNECTION_BAD) return true;
    lose(failure::of(*connection_));
    return false;
  }
  switch (PQresultStatus(r.get())) {
    case PGRES_PIPELINE_SYNC: {
      if (lone_commit_.is_set()) {
        lose(lone_commit_);
        return false;
      }
      phase_ = phase::idle;
      client_.on_transaction(*this, *std::exchange(running_, nullptr));
      return false;
    }
    case PGRES_FATAL_ERROR:
      running_->fail(failure::of(*r));
      return true;
    case PGRES_PIPELINE_ABORTED:
      return true;
    default:
      running_->add(std::move(r));
      return true;
  }
}

bool link::wait(std::chrono::steady_clock::time_point deadline) noexcept {
  using std::chrono::milliseconds;
  while (is_running()) {
    const auto left =
        std::max(std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()), milliseconds{});
    const auto events = static_cast<short>((watched_ & UV_WRITABLE) != 0 ? POLLIN | POLLOUT : POLLIN);
    std::array<pollfd, 1> ready{{{PQsocket(connection_.get()), events, 0}}};
    if (::poll(ready.data(), 1, static_cast<int>(left.count())) > 0)
      on_ready();
    else if (left == milliseconds{})
      return false;
  }
  return true;
}

}  // namespace tickwheel::durable::postgres
