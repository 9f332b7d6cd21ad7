#include <tickwheel/uv/offload.hpp>

#include <memory>
#include <utility>

namespace tickwheel {

using detail::offload_task;

int offload_pool::open(uv_loop_t& loop, const offload_options& options) noexcept {
  if (options.problem() != nullptr) return UV_EINVAL;
  if (is_open()) return UV_EALREADY;
  loop_ = &loop;
  max_in_flight_ = options.max_in_flight;
  refused_ = 0;
  return 0;
}

void offload_pool::close() noexcept {
  loop_ = nullptr;
  in_flight_.clear_and_dispose([](offload_task* task) {
    task->pool = nullptr;
    if (task->owner != nullptr) task->owner->task_ = nullptr;
    task->owner = nullptr;
    uv_cancel(reinterpret_cast<uv_req_t*>(&task->request));
  });
}

int offload_pool::submit(offload_task& task) noexcept {
  if (!is_open()) return UV_ECANCELED;
  if (in_flight_.size() >= max_in_flight_) {
    ++refused_;
    return UV_EAGAIN;
  }
  if (const int error = uv_queue_work(loop_, &task.request, on_work, on_returned)) return error;
  task.pool = this;
  in_flight_.push_back(task);
  return 0;
}

void offload_pool::on_work(uv_work_t* request) noexcept { static_cast<offload_task*>(request->data)->work(); }

// libuv calls it for each request, cancelled or not. The handler may destroy the owner, the pool or itself. By then the task
// depends on none of them, and neither does whatever its destructor destroys.
void offload_pool::on_returned(uv_work_t* request, int status) noexcept {
  const std::unique_ptr<offload_task> task{static_cast<offload_task*>(request->data)};
  if (offload_pool* const pool = std::exchange(task->pool, nullptr))
    pool->in_flight_.erase(pool->in_flight_.iterator_to(*task));
  if (offload_base* const owner = task->owner) {
    owner->task_ = nullptr;
    owner->tell_(*owner, status, task.get());
  }
}

bool offload_base::cancel() noexcept {
  const bool was = timer::armed() || in_flight();
  timer::cancel();
  let_go(std::exchange(task_, nullptr));
  return was;
}

int offload_base::arm(task* made, std::chrono::nanoseconds after) noexcept {
  std::unique_ptr<task> work{made};
  if (work == nullptr) return UV_ENOMEM;
  if (const int error = timer::arm(after)) return error;
  work->owner = this;
  let_go(std::exchange(task_, work.release()));
  return 0;
}

int offload_base::run(task* made) noexcept {
  std::unique_ptr<task> work{made};
  if (work == nullptr) return UV_ENOMEM;
  if (const int error = pool_.submit(*work)) return error;
  timer::cancel();
  work->owner = this;
  let_go(std::exchange(task_, work.release()));
  return 0;
}

void offload_base::expire(wheel_entry& entry) noexcept {
  auto& self = static_cast<offload_base&>(timer::from(entry));
  const int error = self.pool_.submit(*self.task_);
  if (error == 0) return;
  const std::unique_ptr<task> refused{std::exchange(self.task_, nullptr)};
  self.tell_(self, error, nullptr);
}

// Call it last: it may destroy the work's captures, and these may own the caller.
void offload_base::let_go(task* of) noexcept {
  if (of == nullptr) return;
  if (of->pool == nullptr) {
    delete of;
    return;
  }
  of->owner = nullptr;
  uv_cancel(reinterpret_cast<uv_req_t*>(&of->request));  // refused if a thread has started it
}

}  // namespace tickwheel
