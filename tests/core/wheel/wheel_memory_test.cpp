// What allocates: the constructor, and nothing else. And what happens when that may not.
#include "../support/wheel_cases.hpp"

#include <tickwheel/core/wheel.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

namespace {

// of the whole program, since the wheel's allocations cannot be told from others; tests look at differences
std::size_t allocations = 0;
std::size_t live = 0;
std::size_t fail_after = ~std::size_t{0};  // so many more succeed

void* allocate(std::size_t size, std::size_t alignment) {
  if (fail_after != ~std::size_t{0} && fail_after-- == 0) {
    fail_after = ~std::size_t{0};
    return nullptr;
  }
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(size == 0 ? 1 : size)
                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p != nullptr) {
    ++allocations;
    ++live;
  }
  return p;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  if (void* p = allocate(size, alignment)) return p;
#if defined(__cpp_exceptions)
  throw std::bad_alloc{};
#else
  std::abort();
#endif
}

void release(void* p) noexcept {
  if (p == nullptr) return;
  --live;
  std::free(p);
}

}  // namespace

void* operator new(std::size_t n) { return allocate_or_throw(n); }
void* operator new[](std::size_t n) { return allocate_or_throw(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, 0); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate_or_throw(n, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }

namespace tickwheel::test {
namespace {

struct counter : wheel_entry {
  counter() : wheel_entry{[](wheel_entry& e) noexcept { ++static_cast<counter&>(e).fired; }} {}
  unsigned fired = 0;
};

class wheel_memory_test : public testing::TestWithParam<wheel_geometry> {
 protected:
  static constexpr std::size_t count = 1000;

  void arm_all() {
    for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], timers.now() + 1 + i * i % 100'000);
  }

  // what `action` allocates
  template <class F>
  static std::size_t allocated_by(F&& action) {
    const std::size_t before = allocations;
    action();
    return allocations - before;
  }

  std::unique_ptr<counter[]> all = std::make_unique<counter[]>(count);
  wheel timers{GetParam()};  // after the entries: destroyed first, it detaches them
};

TEST_P(wheel_memory_test, the_count_of_allocations_works) {
  EXPECT_EQ(allocated_by([] { ::operator delete(::operator new(1)); }), 1U);
  EXPECT_GT(allocated_by([] { wheel{GetParam()}; }), 0U);
}

TEST_P(wheel_memory_test, arming_allocates_nothing) {
  EXPECT_EQ(allocated_by([&] { arm_all(); }), 0U);
  EXPECT_EQ(timers.armed(), count);
}

TEST_P(wheel_memory_test, moving_allocates_nothing) {
  arm_all();
  EXPECT_EQ(allocated_by([&] {
              for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], all[i].deadline() + 1000);
              for (std::size_t i = 0; i < count; ++i) timers.arm(all[i], all[i].deadline() / 2);
            }),
            0U);
}

TEST_P(wheel_memory_test, cancelling_allocates_nothing) {
  arm_all();
  EXPECT_EQ(allocated_by([&] {
              for (std::size_t i = 0; i < count; ++i) timers.cancel(all[i]);
            }),
            0U);
  EXPECT_EQ(timers.armed(), 0U);
}

TEST_P(wheel_memory_test, advancing_allocates_nothing) {
  arm_all();
  EXPECT_EQ(allocated_by([&] {
              for (tick t = 0; t < 5000; ++t) timers.advance(t);
              while (timers.armed() > count / 4) timers.advance(timers.next_expiry());
              timers.advance(60'000, 10);
              timers.advance(200'000);
              timers.advance(tick{1} << 60);
            }),
            0U);
  EXPECT_EQ(timers.counts().fired, count);
}

TEST_P(wheel_memory_test, skipping_and_sweeping_cancelled_links_allocates_nothing) {
  arm_all();
  for (std::size_t i = 0; i < count; ++i) timers.cancel(all[i]);
  EXPECT_EQ(allocated_by([&] { timers.advance(500'000); }), 0U);
  EXPECT_TRUE(timers.empty());
}

TEST_P(wheel_memory_test, listing_and_clearing_allocates_nothing) {
  arm_all();
  EXPECT_EQ(allocated_by([&] {
              std::size_t seen = 0;
              timers.for_each_armed([&](wheel_entry&) { ++seen; });
              timers.clear([&](wheel_entry&) { ++seen; });
              EXPECT_EQ(seen, 2 * count);
            }),
            0U);
}

#if defined(__cpp_exceptions)
TEST_P(wheel_memory_test, a_wheel_that_cannot_allocate_throws_bad_alloc_and_leaks_nothing) {
  std::size_t refused = 0;
  for (;; ++refused) {
    const std::size_t before = live;
    bool threw = false;
    {
      std::optional<wheel> made;
      fail_after = refused;
      try {
        made.emplace(GetParam());
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      fail_after = ~std::size_t{0};
    }
    ASSERT_EQ(live, before) << refused;
    if (!threw) break;
  }
  EXPECT_EQ(refused, allocated_by([] { wheel{GetParam()}; }));
}
#endif

INSTANTIATE_TEST_SUITE_P(all, wheel_memory_test, testing::ValuesIn(all_geometries()), geometry_name);

TEST(wheel_entry_test, an_entry_takes_at_most_40_bytes) {
  if (sizeof(void*) == 8) {
    EXPECT_LE(sizeof(wheel_entry), 40U);
  }
}

}  // namespace
}  // namespace tickwheel::test
