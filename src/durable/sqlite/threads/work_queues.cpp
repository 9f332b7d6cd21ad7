#include "work_queues.hpp"

#include "../../batch_limits.hpp"

#include <algorithm>
#include <cstddef>

namespace tickwheel::durable::sqlite {

namespace {

using detail::limits;

struct size {
  std::size_t elements = 0;
  std::size_t bytes = 0;
};

size size_of(const queued_call& queued) noexcept {
  switch (queued.kind) {
    case verb::put: {
      size sum;
      for (const auto& item : queued.as<put_call>().items) {
        ++sum.elements;
        sum.bytes += item.what.id.size() + item.what.payload.size();
      }
      return sum;
    }
    case verb::cancel:
      return {queued.as<cancel_call>().ids.size(), 0};
    case verb::revive:
      return {queued.as<revive_call>().ids.size(), 0};
    case verb::get:
      return {queued.as<get_call>().ids.size(), 0};
    case verb::purge:
      return {queued.as<purge_call>().limit, 0};
    default:
      return {};
  }
}

}  // namespace

void work_queues::push(queued_call& call) noexcept {
  const std::lock_guard lock{mutex_};
  switch (call.kind) {
    case verb::load:
      reads_.push(call);
      reader_.notify_one();
      return;
    case verb::put:
    case verb::cancel:
    case verb::revive:
    case verb::get:
    case verb::list:
    case verb::purge:
      requests_.push(call);
      break;
    default:
      starts_.push(call);
      starts_wait_ = true;
      break;
  }
  writer_.notify_one();
}

void work_queues::stop() noexcept {
  const std::lock_guard lock{mutex_};
  stopping_ = true;
  writer_.notify_one();
  reader_.notify_one();
  suspended_.notify_one();
}

call_list work_queues::take_left() noexcept {
  const std::lock_guard lock{mutex_};
  call_list left = std::move(starts_);
  left.append(std::move(requests_));
  left.append(std::move(reads_));
  return left;
}

bool work_queues::has_writing() const noexcept {
  return stopping_ || !starts_.empty() || (!requests_.empty() && !requests_wait_) || wants_completion_ ||
         wants_reopening_;
}

bool work_queues::next_writing(writing& work, std::chrono::milliseconds patience) noexcept {
  std::unique_lock lock{mutex_};
  const auto until = patience.count() > 0 ? steady::now() + patience : steady::time_point::max();
  while (!has_writing()) {
    const auto end = std::min(until, retry_at_);
    if (end == steady::time_point::max())
      writer_.wait(lock);
    else if (writer_.wait_until(lock, end) == std::cv_status::timeout)
      break;
  }
  if (stopping_) return false;
  work.starts = std::move(starts_);
  starts_wait_ = false;
  hand_over_list();
  if (!requests_wait_) take_requests(work.requests);
  work.completes_checkpoint = std::exchange(wants_completion_, false);
  work.reopens_file = std::exchange(wants_reopening_, false);
  work.retries_wakeup = retry_at_ <= steady::now();
  if (work.retries_wakeup) retry_at_ = steady::time_point::max();
  return true;
}

// all that was taken before is committed
void work_queues::hand_over_list() noexcept {
  if (requests_wait_ || requests_.empty() || requests_.front().kind != verb::list) return;
  reads_.push(requests_.pop());
  requests_wait_ = true;
  reader_.notify_one();
}

void work_queues::take_requests(call_list& taken) noexcept {
  size sum;
  while (!requests_.empty() && requests_.front().kind != verb::list) {
    const size next = size_of(requests_.front());
    sum.elements += next.elements;
    sum.bytes += next.bytes;
    if (!taken.empty() && (sum.elements > limits.elements || sum.bytes > limits.bytes)) return;
    taken.push(requests_.pop());
  }
}

void work_queues::give_back(call_list&& requests) noexcept {
  const std::lock_guard lock{mutex_};
  requests.append(std::move(requests_));
  requests_ = std::move(requests);
}

bool work_queues::suspend_reader() noexcept {
  std::unique_lock lock{mutex_};
  reader_shall_close_ = true;
  reader_.notify_one();
  suspended_.wait(lock, [this] { return reader_is_closed_ || stopping_; });
  return !stopping_;
}

void work_queues::resume_reader() noexcept {
  const std::lock_guard lock{mutex_};
  reader_shall_close_ = reader_is_closed_ = false;
}

void work_queues::request_checkpoint() noexcept {
  const std::lock_guard lock{mutex_};
  wants_checkpoint_ = true;
  reader_.notify_one();
}

void work_queues::resume_checkpoints() noexcept {
  const std::lock_guard lock{mutex_};
  reader_waits_ = false;
  reader_.notify_one();
}

void work_queues::retry_wakeup(std::chrono::milliseconds after) noexcept {
  if (after.count() == 0) return;
  const std::lock_guard lock{mutex_};
  retry_at_ = std::min(retry_at_, steady::now() + after);
  writer_.notify_one();
}

work_queues::reading work_queues::next_reading(queued_call*& call) noexcept {
  std::unique_lock lock{mutex_};
  reader_.wait(lock, [this] {
    return stopping_ || (reader_shall_close_ && !reader_is_closed_) ||
           (!reader_waits_ && (!reads_.empty() || wants_checkpoint_));
  });
  if (stopping_) return reading::stop;
  if (reader_shall_close_ && !reader_is_closed_) return reading::suspend;
  if (!reads_.empty() && !(wants_checkpoint_ && has_read_)) {
    call = &reads_.pop();
    has_read_ = true;
    return reading::call;
  }
  wants_checkpoint_ = has_read_ = false;
  return reading::checkpoint;
}

void work_queues::suspended() noexcept {
  const std::lock_guard lock{mutex_};
  reader_is_closed_ = true;
  suspended_.notify_one();
}

void work_queues::list_is_fixed() noexcept {
  const std::lock_guard lock{mutex_};
  requests_wait_ = false;
  writer_.notify_one();
}

void work_queues::request_completion() noexcept {
  const std::lock_guard lock{mutex_};
  wants_completion_ = reader_waits_ = true;
  writer_.notify_one();
}

void work_queues::request_reopening() noexcept {
  const std::lock_guard lock{mutex_};
  wants_reopening_ = reader_waits_ = true;
  writer_.notify_one();
}

bool work_queues::reader_is_suspended() noexcept {
  const std::lock_guard lock{mutex_};
  return reader_is_closed_;
}

}  // namespace tickwheel::durable::sqlite
