#include "writer.hpp"

#include "../file/schema.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace tickwheel::durable::sqlite {

namespace {

using namespace std::chrono_literals;

// from one try to open a file again to the next
constexpr std::chrono::milliseconds reopen_pause = 100ms;

void copy_log(const connection& file) {
  const int error = sqlite3_wal_checkpoint_v2(file.get(), "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if (error != SQLITE_OK) throw failure::of(file.get());
}

}  // namespace

writer::open_file::open_file(const std::string& path, access how, const store_state& state, const work_queues& queues)
    : file{path, how, state.options.cache_bytes, queues.stopping()},
      counter{(prepare_file(file), file)},
      changes{file, counter, queues.starts_wait()},
      start_verbs{file},
      request_verbs{file},
      join{file.get(), "update meta set session = ?1, keep_finished = ?2"} {
  sqlite3_wal_hook(
      file.get(),
      [](void* frames, sqlite3*, const char*, int count) {
        *static_cast<int*>(frames) = count;
        return SQLITE_OK;
      },
      &log_frames);
}

void writer::run() noexcept {
  for (;;) {
    work_queues::writing work;
    const bool is_lost = lock_.has_value() && open_ == nullptr;
    if (!queues_.next_writing(work, is_lost ? reopen_pause : 0ms)) break;
    if (work.retries_wakeup) queues_.retry_wakeup(answers_.retry());
    if (work.reopens_file) lose_file();
    if (lock_.has_value() && open_ == nullptr) reopen();
    if (work.completes_checkpoint) complete_checkpoint();
    if (work.completes_checkpoint || work.reopens_file) queues_.resume_checkpoints();
    carry_out(work);
  }
  open_.reset();
}

void writer::carry_out(work_queues::writing& work) noexcept {
  call_list batch;
  while (!work.starts.empty()) {
    queued_call& call = work.starts.pop();
    if (call.kind != verb::join) {
      batch.push(call);
      continue;
    }
    commit(batch);
    join(call);
  }
  commit(batch);
  commit(work.requests);
}

void writer::commit(call_list& batch) noexcept {
  if (batch.empty()) return;
  const membership before = node_;
  nanoseconds now = 0;
  const store_status status = open_ == nullptr ? store_status::unavailable : attempt(batch, now);
  if (status != store_status::ok) node_ = before;
  if (status == store_status::ok && first_left_ != nullptr) {
    first_left_->done = reached_;
    call_list complete = batch.split_before(*first_left_);
    queues_.give_back(std::move(batch));
    batch = std::move(complete);
  }
  batch.for_each([&](const queued_call& queued) {
    if (status == store_status::ok)
      queued.call->status = status;
    else
      end(queued, status);
    if (queued.kind == verb::recover) std::erase(queued.as<recover_call>().doubted, std::string{});
    queued.call->now = from_database(now);
  });
  answer(std::move(batch));
}

void writer::answer(call_list&& calls) noexcept { queues_.retry_wakeup(answers_.answer(std::move(calls))); }

store_status writer::attempt(const call_list& batch, nanoseconds& now) noexcept {
  transaction& changes = open_->changes;
  const membership before = node_;
  changes.renew();
  for (bool is_done = false; !is_done;) {
    try {
      node_ = before;
      changes.begin();
      now = state_.read_now();
      changes.set_time(now, state_.keep_finished);
      run_all(batch);
      is_done = true;
    } catch (const transaction::start_over&) {
      changes.roll_back();
    } catch (const failure& f) {
      state_.report(f);
      changes.roll_back();
      if (!f.leaves_connection()) lose_file();
      return store_status::unavailable;
    } catch (const std::exception&) {
      state_.report(failure::of(nullptr));
      changes.roll_back();
      return store_status::unavailable;
    }
  }
  if (changes.had_refusal()) state_.report(changes.last_refusal());
  try {
    state_.log.committing();
    changes.commit();
    after_commit();
    return store_status::ok;
  } catch (const failure& thrown) {
    const failure f = open_->file.with_errno(thrown);
    state_.report(f);
    changes.roll_back();
    if (f.leaves_no_commit()) return store_status::unavailable;
    lose_file();
    return store_status::unknown;
  }
}

void writer::run_all(const call_list& batch) {
  first_left_ = nullptr;
  batch.for_each([this](queued_call& call) {
    if (first_left_ == nullptr && !run_one(call)) first_left_ = &call;
  });
}

// Returns false if it has given way to starts before its end.
bool writer::run_one(queued_call& call) {
  transaction& in = open_->changes;
  requests& verbs = open_->request_verbs;
  const auto run = [&](auto& request, std::size_t count, auto act) {
    reached_ = (verbs.*act)(in, request, call.done);
    return reached_ == count;
  };
  switch (call.kind) {
    case verb::put:
      return run(call.as<put_call>(), call.as<put_call>().items.size(), &requests::put);
    case verb::cancel:
      return run(call.as<cancel_call>(), call.as<cancel_call>().ids.size(), &requests::cancel);
    case verb::revive:
      return run(call.as<revive_call>(), call.as<revive_call>().ids.size(), &requests::revive);
    case verb::get:
      return run(call.as<get_call>(), call.as<get_call>().ids.size(), &requests::get);
    case verb::purge:
      return run(call.as<purge_call>(), call.as<purge_call>().limit, &requests::purge);
    default:
      run_start(call);
      return true;
  }
}

void writer::run_start(const queued_call& call) {
  transaction& in = open_->changes;
  switch (call.kind) {
    case verb::renew:
      return renew(call.as<renew_call>());
    case verb::bury:
      return node_.bury(call.as<bury_call>());
    case verb::acquire:
      return node_.acquire(call.as<acquire_call>());
    case verb::release:
      return node_.release(call.as<release_call>());
    case verb::begin:
      in.expect_starts();
      if (auto& begin = call.as<begin_call>(); node_.owns(begin.session))
        open_->start_verbs.begin(in, begin);
      else
        begin.starts.clear();
      return;
    case verb::finish:
      return open_->start_verbs.finish(in, call.as<finish_call>());
    case verb::recover:
      return recover(call.as<recover_call>());
    default:
      return;  // the others come another way
  }
}

void writer::renew(renew_call& call) {
  node_.renew(call, open_->changes.now());
  call.dead = call.is_buried ? 0 : open_->request_verbs.count_dead();
}

void writer::recover(recover_call& call) {
  call.recovered = call.died = 0;
  if (!node_.is_member(call.session)) return;
  if (node_.owns(call.session)) open_->start_verbs.recover(open_->changes, call, node_.session());
  open_->start_verbs.give_back(open_->changes, call, node_.session());
}

// A file that was moved, or a log that another program has deleted, keeps nothing of what is committed to it.
void writer::after_commit() {
  open_file& here = *open_;
  if (here.file.has_moved())
    throw failure{SQLITE_IOERR, 0, "the file or its log was moved or deleted while it was open"};
  const int frames = std::exchange(here.log_frames, 0);
  if (frames != 0 && state_.log.committed(frames)) queues_.request_checkpoint();
}

void writer::join(queued_call& queued) noexcept {
  auto& call = queued.as<join_call>();
  call.error = 0;
  call.session = 0;
  call.partitions = 0;
  call.status = try_to_join(call);
  const bool has_joined = call.status == store_status::ok && call.error == 0;
  if (!has_joined) {
    node_.leave();
    lose_file();
    lock_.reset();
  }
  call_list answered;
  answered.push(queued);
  answer(std::move(answered));
}

store_status writer::try_to_join(join_call& call) noexcept {
  try {
    if (!lock_) {
      state_.file = resolved(state_.path);
      lock_.emplace(state_.file);
    }
    if (open_ == nullptr) open(access::create);
    transaction& changes = open_->changes;
    changes.begin();
    const nanoseconds now = state_.read_now();
    open_->counter.lift(open_->file, last_revision_, now);
    const session_number session = open_->counter.next();
    const nanoseconds keep = std::max<nanoseconds>(call.keep_finished.count(), 0);
    query{open_->join}.bind(static_cast<std::int64_t>(session)).bind(keep).run();
    state_.log.committing();
    changes.commit();
    after_commit();
    node_.join(session, add(now, std::max<nanoseconds>(call.lease.count(), 0)));
    state_.keep_finished = keep;
    call.session = session;
    call.partitions = 1;
    call.now = from_database(now);
    return store_status::ok;
  } catch (const failure& f) {
    state_.report(f);
    if (f.is_outage()) return store_status::unavailable;
    call.error = f.uv_code();
    call.now = state_.now();
    return store_status::ok;
  } catch (const std::exception&) {
    state_.report(failure::of(nullptr));
    return store_status::unavailable;
  }
}

void writer::open(access how) {
  open_sign sign;  // outlives the connection if this fails
  auto made = std::make_unique<open_file>(state_.file, how, state_, queues_);
  sign = open_sign{state_.file};
  try {
    // a log that a power failure may still shorten is in the file from here on
    copy_log(made->file);
  } catch (const failure& f) {
    // another program may read the log for long
    if (how == access::existing || !f.is_outage()) throw;
  }
  made->file.watch_log();
  open_ = std::move(made);
  sign_ = std::move(sign);
  queues_.resume_reader();
}

void writer::reopen() noexcept {
  try {
    open(access::existing);
    transaction& changes = open_->changes;
    changes.begin();
    open_->counter.lift(open_->file, last_revision_, state_.read_now());
    const auto session = static_cast<session_number>(open_->file.integer("select session from meta"));
    state_.log.committing();
    changes.commit();
    if (session != node_.session()) node_.leave();  // another file has taken its place
  } catch (const failure& f) {
    state_.report(f);
    lose_file();
  } catch (const std::exception&) {
    state_.report(failure::of(nullptr));
    lose_file();
  }
}

void writer::lose_file() noexcept {
  if (open_ == nullptr) return;
  last_revision_ = std::max(last_revision_, open_->counter.last());
  const bool is_reader_closed = queues_.suspend_reader();
  open_.reset();
  if (is_reader_closed) sign_ = {};
}

void writer::complete_checkpoint() noexcept {
  if (open_ == nullptr) return;
  try {
    state_.log.complete(open_->file);
  } catch (const failure& f) {
    state_.report(f);
    if (!f.leaves_connection()) lose_file();
  }
}

}  // namespace tickwheel::durable::sqlite
