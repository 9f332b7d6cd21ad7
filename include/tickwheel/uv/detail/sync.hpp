// The building blocks of code between threads: atomics, a mutex, and plain data that one thread hands to another.
//
// The library uses those of the standard library. They are a template parameter of the inbox, the post queue and its operations.
// So tests/weak_memory can pass others, which explore the behaviour that the C++ memory model allows.
#pragma once

#include <tickwheel/core/export.h>

#include <atomic>
#include <mutex>

namespace tickwheel::detail {

/// The parts of the standard library.
struct TICKWHEEL_API std_sync {
  template <class T>
  using atomic = std::atomic<T>;
  /// Data that several threads use. While one of them writes it, no other thread uses it.
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

// The types that the library uses.
using inbox_link = basic_inbox_link<std_sync>;
using inbox_chain = basic_inbox_chain<std_sync>;
using inbox = basic_inbox<std_sync>;
using posted_operation = basic_posted_operation<std_sync>;
using post_queue = basic_post_queue<std_sync>;

}  // namespace tickwheel::detail
