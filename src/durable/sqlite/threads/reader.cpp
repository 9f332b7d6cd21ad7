#include "reader.hpp"

#include <exception>
#include <utility>

namespace tickwheel::durable::sqlite {

namespace {

// pages that many polls read again
constexpr std::size_t cache_bytes = 4 << 20;

}  // namespace

reader::open_file::open_file(const std::string& path, const std::atomic<bool>& give_up)
    : file{path, access::existing, cache_bytes, give_up}, verbs{file} {}

void reader::run() noexcept {
  for (;;) {
    queued_call* call = nullptr;
    switch (queues_.next_reading(call)) {
      case work_queues::reading::call:
        carry_out(*call);
        break;
      case work_queues::reading::checkpoint:
        checkpoint();
        break;
      case work_queues::reading::suspend:
        close();
        queues_.suspended();
        break;
      case work_queues::reading::stop:
        close();
        return;
    }
  }
}

reader::open_file& reader::opened() {
  if (queues_.reader_is_suspended()) throw failure{SQLITE_BUSY, 0, "the file is not open"};
  if (open_ == nullptr) {
    auto made = std::make_unique<open_file>(state_.file, queues_.stopping());
    const std::lock_guard lock{mutex_};
    open_ = std::move(made);
  }
  return *open_;
}

void reader::close() noexcept {
  const std::lock_guard lock{mutex_};
  open_.reset();
}

void reader::interrupt() noexcept {
  const std::lock_guard lock{mutex_};
  if (open_ != nullptr) sqlite3_interrupt(open_->file.get());
}

void reader::carry_out(queued_call& queued) noexcept {
  store_call& call = *queued.call;
  call.status = store_status::unavailable;
  bool is_held = queued.kind == verb::list;  // the requests behind it wait
  try {
    const nanoseconds now = state_.read_now();
    if (queued.kind == verb::load)
      opened().verbs.load(queued.as<load_call>(), now);
    else
      list(queued.as<list_call>(), now, is_held);
    call.now = from_database(now);
    call.status = store_status::ok;
  } catch (const failure& f) {
    if (!queues_.reader_is_suspended()) state_.report(f);
    if (!f.leaves_connection()) close();
  } catch (const std::exception&) {  // no memory
    call.status = store_status::unavailable;
  }
  if (is_held) queues_.list_is_fixed();
  call_list answered;
  answered.push(queued);
  queues_.retry_wakeup(answers_.answer(std::move(answered)));
}

void reader::list(list_call& call, nanoseconds now, bool& is_held) {
  reads& verbs = opened().verbs;
  try {
    verbs.begin_list();
    queues_.list_is_fixed();
    is_held = false;
    verbs.list(call, now - state_.keep_finished);
  } catch (...) {
    verbs.end_list();
    throw;
  }
  verbs.end_list();
}

void reader::checkpoint() noexcept {
  try {
    if (state_.log.run(opened().file)) queues_.request_completion();
  } catch (const failure& f) {
    if (queues_.reader_is_suspended()) return;
    state_.report(f);
    if (f.loses_writes()) queues_.request_reopening();
    if (!f.leaves_connection()) close();
  } catch (const std::exception&) {
    return;  // no memory: the next one copies this one's pages, too
  }
}

}  // namespace tickwheel::durable::sqlite
