// What is between two operations of a workload.
//
// In a tight loop a processor has the cache misses of many operations under way at once, which a server, whose operations
// are apart, does not get. Fenced, each operation is over before the next one begins: that is what one costs by itself,
// with all that it waits for. The truth for a server lies between the two.
#pragma once

#include <benchmark/benchmark.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <atomic>
#endif

namespace tickwheel::bench {

/// One after the other. The compiler is told that memory may have changed, as it has between the calls of two I/O
/// handlers; else it would merge what one operation stores with what the next one loads.
struct adjacent {
  static void end_operation() noexcept { benchmark::ClobberMemory(); }
};

/// One by one: what an operation loads has arrived, and what it stores is in the cache, before anything else begins.
struct isolated {
  static void end_operation() noexcept {
    benchmark::ClobberMemory();
    // To order memory is not enough: the next operation's address is known, and would be computed and fetched early.
#if defined(__x86_64__) || defined(__i386__)
    _mm_mfence();  // stores leave the store buffer, each of which may wait for its line
    _mm_lfence();  // and no later instruction begins before
#elif defined(__aarch64__)
    asm volatile("dsb ish\n\tisb" ::: "memory");  // the same two
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as near as standard C++ comes
#endif
  }
};

}  // namespace tickwheel::bench
