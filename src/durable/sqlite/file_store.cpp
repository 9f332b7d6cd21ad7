#include "file_store.hpp"

#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/timer_service.hpp>

#include <uv.h>
#include <csignal>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tickwheel::durable {

namespace sqlite {

namespace {

using namespace std::chrono_literals;

// from one interruption of the reader to the next: the first one may come before it reads
constexpr std::chrono::milliseconds interrupt_pause = 1ms;

// Blocks all signals for the threads that are started meanwhile. The program's handlers then run on its own threads.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t former_;
};

}  // namespace

void file_store::running::start() {
  const signals_blocked no_signals;
  writer_thread = std::thread{[this] { writes.run(); }};
  reader_thread = std::thread{[this] {
    reads.run();
    reader_ended = true;
  }};
}

void file_store::running::stop() noexcept {
  queues.stop();
  while (reader_thread.joinable() && !reader_ended) {
    reads.interrupt();
    std::this_thread::sleep_for(interrupt_pause);
  }
  if (reader_thread.joinable()) reader_thread.join();
  if (writer_thread.joinable()) writer_thread.join();
}

file_store::~file_store() { close(); }

const char* file_store::invalid_field() const noexcept {
  const std::string& path = state_.path;
  if (path.empty()) return "sqlite_store: the path is empty";
  if (path.find('\0') != std::string::npos) return "sqlite_store: the path has a NUL";
  if (path == ":memory:") return "sqlite_store: the path is :memory:, but only a file keeps tasks";
  if (path.starts_with("file:")) return "sqlite_store: the path is a URI; it must be the name of a file";
  return state_.options.problem();
}

int file_store::open(timer_service& timers) noexcept {
  tickwheel::detail::require(running_ == nullptr, "store::open of an open store");
  try {
    if (const char* const invalid = invalid_field()) {
      state_.problem.set(invalid);
      return UV_EINVAL;
    }
    auto made = std::make_unique<running>(state_, timers);
    try {
      made->start();
    } catch (const std::system_error&) {
      made->stop();
      return UV_ENOMEM;
    }
    running_ = std::move(made);
    return 0;
  } catch (const std::exception&) {
    return UV_ENOMEM;
  }
}

void file_store::close() noexcept {
  if (running_ == nullptr || is_closing_) return;
  if (running_->fork.is_in_child()) {
    static_cast<void>(running_.release());  // the locks and descriptors in it are the parent's
    return;
  }
  is_closing_ = true;
  running& open = *running_;
  open.stop();

  // an answer that was not delivered had its effect
  call_list left = open.answers->close();
  left.for_each([](const queued_call& queued) {
    if (queued.call->status == store_status::ok)
      queued.call->status = only_reads(queued.kind) ? store_status::unavailable : store_status::unknown;
  });
  call_list never_taken = open.queues.take_left();
  never_taken.for_each([](const queued_call& queued) { end(queued, store_status::unavailable); });
  left.append(std::move(never_taken));
  left.sort();
  while (!left.empty()) open.answers->deliver(left.pop());
  while (!late_.empty()) open.answers->deliver(late_.pop());

  const auto ended = std::move(running_);
  is_closing_ = false;
}

std::string_view file_store::problem() const noexcept {
  try {
    problem_ = state_.problem.get();
  } catch (const std::exception&) {
    problem_.clear();
  }
  return problem_;
}

void file_store::push(verb kind, store_call& call) noexcept {
  tickwheel::detail::require(running_ != nullptr, "a verb of a closed store");
  call.carried_out = 0;
  if (running_->fork.is_in_child()) return;
  queued_call& queued = running_->answers->place(kind, call);
  if (!is_closing_) return running_->queues.push(queued);
  call.status = store_status::unavailable;
  late_.push(queued);
}

}  // namespace sqlite

const char* sqlite_options::problem() const noexcept {
  if (cache_bytes < (std::size_t{64} << 10)) return "sqlite_options::cache_bytes is less than 64 KiB";
  if (checkpoint_pages == 0) return "sqlite_options::checkpoint_pages is zero";
  return nullptr;
}

std::unique_ptr<store> sqlite_store(std::string path, sqlite_options options) {
  return std::make_unique<sqlite::file_store>(std::move(path), options, [] { return clock::now(); });
}

}  // namespace tickwheel::durable
