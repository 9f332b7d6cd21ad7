// A message holds a copy of a call: of its request on the way to the store, and of its answer on the way back.
#pragma once

#include <tickwheel/durable/store.hpp>

#include <utility>

namespace simulation {

namespace durable = tickwheel::durable;

// The request

inline void copy_request(const durable::join_call& from, durable::join_call& to) {
  to.name = from.name;
  to.lease = from.lease;
  to.keep_finished = from.keep_finished;
}
inline void copy_request(const durable::renew_call& from, durable::renew_call& to) {
  to.session = from.session;
  to.lease = from.lease;
  to.is_starting = from.is_starting;
}
inline void copy_request(const durable::bury_call& from, durable::bury_call& to) {
  to.session = from.session;
  to.beat = from.beat;
}
inline void copy_request(const durable::acquire_call& from, durable::acquire_call& to) {
  to.session = from.session;
  to.limit = from.limit;
}
inline void copy_request(const durable::release_call& from, durable::release_call& to) {
  to.session = from.session;
  to.partitions = from.partitions;
  to.to = from.to;
}
inline void copy_request(const durable::load_call& from, durable::load_call& to) {
  to.window = from.window;
  to.page = from.page;
  to.ranges = from.ranges;
}
inline void copy_request(const durable::begin_call& from, durable::begin_call& to) {
  to.session = from.session;
  to.items = from.items;
}
inline void copy_request(const durable::finish_call& from, durable::finish_call& to) { to.items = from.items; }
inline void copy_request(const durable::recover_call& from, durable::recover_call& to) {
  to.session = from.session;
  to.max_attempts = from.max_attempts;
  to.is_urgent = from.is_urgent;
  to.doubted = from.doubted;
}
inline void copy_request(const durable::put_call& from, durable::put_call& to) { to.items = from.items; }
inline void copy_request(const durable::cancel_call& from, durable::cancel_call& to) { to.ids = from.ids; }
inline void copy_request(const durable::revive_call& from, durable::revive_call& to) { to.ids = from.ids; }
inline void copy_request(const durable::get_call& from, durable::get_call& to) { to.ids = from.ids; }
inline void copy_request(const durable::list_call& from, durable::list_call& to) {
  to.state = from.state;
  to.after = from.after;
  to.limit = from.limit;
}
inline void copy_request(const durable::purge_call& from, durable::purge_call& to) { to.limit = from.limit; }

// The answer, without its status and time

inline void move_answer(durable::join_call& from, durable::join_call& to) {
  to.error = from.error;
  to.session = from.session;
  to.partitions = from.partitions;
}
inline void move_answer(durable::renew_call& from, durable::renew_call& to) {
  to.is_buried = from.is_buried;
  to.nodes = std::move(from.nodes);
  to.partitions = std::move(from.partitions);
  to.free_partitions = from.free_partitions;
  to.dead = from.dead;
}
inline void move_answer(durable::bury_call& from, durable::bury_call& to) { to.is_buried = from.is_buried; }
inline void move_answer(durable::acquire_call& from, durable::acquire_call& to) {
  to.partitions = std::move(from.partitions);
}
inline void move_answer(durable::release_call&, durable::release_call&) {}
inline void move_answer(durable::load_call& from, durable::load_call& to) { to.rows = std::move(from.rows); }
inline void move_answer(durable::begin_call& from, durable::begin_call& to) { to.starts = std::move(from.starts); }
inline void move_answer(durable::finish_call& from, durable::finish_call& to) {
  to.results = std::move(from.results);
  to.pending = std::move(from.pending);
}
inline void move_answer(durable::recover_call& from, durable::recover_call& to) {
  to.recovered = from.recovered;
  to.died = from.died;
}
inline void move_answer(durable::put_call& from, durable::put_call& to) { to.results = std::move(from.results); }
inline void move_answer(durable::cancel_call& from, durable::cancel_call& to) { to.results = std::move(from.results); }
inline void move_answer(durable::revive_call& from, durable::revive_call& to) { to.results = std::move(from.results); }
inline void move_answer(durable::get_call& from, durable::get_call& to) { to.results = std::move(from.results); }
inline void move_answer(durable::list_call& from, durable::list_call& to) { to.results = std::move(from.results); }
inline void move_answer(durable::purge_call& from, durable::purge_call& to) { to.purged = from.purged; }

}  // namespace simulation
