// Barriers between two operations of a workload.
//
// In a tight loop a processor has the cache misses of many operations under way at once. The operations of a server are apart, so
// it does not get that. With a barrier, each operation ends before the next one begins. The figure is then the cost of one operation
// with everything that it waits for. The truth for a server lies between the two.
#pragma once

#include <benchmark/benchmark.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <atomic>
#endif

namespace tickwheel::bench {

/// No barrier for the processor. The compiler is told that memory may have changed, just as between two I/O handlers. Otherwise it
/// would merge the stores of one operation with the loads of the next one.
struct adjacent {
  static void end_operation() noexcept { benchmark::ClobberMemory(); }
};

/// A full barrier: the loads of an operation have arrived, and its stores are in the cache, before anything else begins.
struct isolated {
  static void end_operation() noexcept {
    benchmark::ClobberMemory();
    // A memory barrier is not enough: the next operation's address is known, and would be computed and fetched early.
#if defined(__x86_64__) || defined(__i386__)
    _mm_mfence();  // all stores leave the store buffer; each may wait for its line
    _mm_lfence();  // no later instruction begins before that
#elif defined(__aarch64__)
    asm volatile("dsb ish\n\tisb" ::: "memory");  // the same two
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as near as standard C++ comes
#endif
  }
};

}  // namespace tickwheel::bench
