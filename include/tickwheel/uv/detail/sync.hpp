// The parts that the code between threads is built from: atomics, a mutex, and the plain data that one thread hands to another.
//
// The library uses those of the standard. They are a template parameter of the inbox, the nodes and the post_queue, so that
// tests/weak_memory can pass others, which explore what the C++ memory model allows.
#pragma once

#include <tickwheel/core/export.h>

#include <atomic>
#include <mutex>

namespace tickwheel::detail {

/// The standard's.
struct TICKWHEEL_API std_sync {
  template <class T>
  using atomic = std::atomic<T>;
  /// Data that several threads use, but never two at once if one of them writes.
  template <class T>
  using plain = T;
  using mutex = std::mutex;
};

template <class Sync>
struct basic_inbox_link;
template <class Sync>
class basic_inbox_chain;
template <class Sync>
class basic_inbox;
template <class Sync>
struct basic_posted_operation;
template <class Sync>
class TICKWHEEL_API basic_post_queue;

// The library's.
using inbox_link = basic_inbox_link<std_sync>;
using inbox_chain = basic_inbox_chain<std_sync>;
using inbox = basic_inbox<std_sync>;
using posted_operation = basic_posted_operation<std_sync>;
using post_queue = basic_post_queue<std_sync>;

}  // namespace tickwheel::detail
