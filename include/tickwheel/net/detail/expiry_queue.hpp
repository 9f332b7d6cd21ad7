// The entries of an expiring_map, in the order in which they expire.
//
// Every entry has the same limit, so the one that was renewed last expires last: a list is the order, and no heap or wheel is
// needed. The entries have their places in one array. They never move, so pointers to values stay valid.
//
// Moving an entry to the end of the list writes to its neighbours, which are seldom in the cache. So an entry that is renewed
// often moves only once per *step*, a part of the limit: time is cut into steps, and the list is ordered by the step of the
// expiry. An entry waits less than a step for those before it.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/uv/driver.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace tickwheel::detail {

/// *Complexity:* O(1), except the destructor, which is O(entries). Only `open` allocates. *Lifetime:* moves; the source is then
/// closed and empty.
template <class Key, class Value>
class expiry_queue {
 public:
  /// A place among the entries, below the capacity.
  using slot = std::uint32_t;
  /// No slot.
  static constexpr slot none = ~slot{0};

  struct entry {
    Key key;
    Value value;
    clock::time_point expires_at;
  };

  /// The rest of an entry that was removed.
  struct taken {
    Key key;
    Value value;
  };

  expiry_queue() noexcept = default;
  expiry_queue(expiry_queue&& other) noexcept
      : places_{std::move(other.places_)},
        links_{std::move(other.links_)},
        capacity_{std::exchange(other.capacity_, 0)},
        size_{std::exchange(other.size_, 0)},
        unused_{std::exchange(other.unused_, 0)},
        free_{std::exchange(other.free_, none)},
        first_{std::exchange(other.first_, none)},
        last_{std::exchange(other.last_, none)} {}
  expiry_queue& operator=(expiry_queue&&) = delete;
  ~expiry_queue() {
    for (slot s = first_; s != none; s = links_[s].after) (*this)[s].~entry();
  }

  /// Makes room for `capacity` entries, ordered by steps of `step`. Their memory is touched only when they are added. Returns
  /// false if there is no memory. Requires: closed; `step` is positive.
  [[nodiscard]] bool open(std::size_t capacity, std::chrono::nanoseconds step) noexcept {
    if (capacity > std::numeric_limits<std::size_t>::max() / 2 / sizeof(place)) return false;
    std::unique_ptr<place[]> places{new (std::nothrow) place[capacity]};
    std::unique_ptr<link[]> links{new (std::nothrow) link[capacity]};
    if (places == nullptr || links == nullptr) return false;
    places_ = std::move(places);
    links_ = std::move(links);
    capacity_ = capacity;
    step_ = step;
    step_begin_ = step_end_ = {};
    return true;
  }

  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == capacity_; }

  /// The entry that expires first, or in the same step as the first. `none`: it is empty.
  slot first() const noexcept { return first_; }
  slot after(slot s) const noexcept { return links_[s].after; }
  slot before(slot s) const noexcept { return links_[s].before; }
  entry& operator[](slot s) noexcept { return places_[s].used; }
  const entry& operator[](slot s) const noexcept { return places_[s].used; }

  /// Adds an entry. Requires: not full; no entry expires later.
  template <class K, class V>
  slot add(K&& key, V&& value, clock::time_point expires_at) noexcept {
    const slot s = free_ != none ? std::exchange(free_, links_[free_].after) : unused_++;
    ::new (static_cast<void*>(&places_[s].used))
        entry{Key(std::forward<K>(key)), Value(std::forward<V>(value)), expires_at};
    append(s);
    ++size_;
    return s;
  }

  /// Lets an entry expire at `expires_at`. Requires: no entry expires later.
  void renew(slot s, clock::time_point expires_at) noexcept {
    entry& e = (*this)[s];
    const bool moves = e.expires_at < begin_of_step(expires_at);
    e.expires_at = expires_at;
    if (!moves || s == last_) return;
    unlink(s);
    append(s);
  }

  /// Returns when the step of `t` begins. Divides only for the first of each step.
  clock::time_point begin_of_step(clock::time_point t) noexcept {
    if (t < step_begin_ || t >= step_end_) {
      step_begin_ = t - t.time_since_epoch() % step_;
      step_end_ = add_saturating(step_begin_, step_);
    }
    return step_begin_;
  }

  /// Returns the last moment of the step of `t`.
  clock::time_point end_of_step(clock::time_point t) const noexcept {
    return add_saturating(t - t.time_since_epoch() % step_, step_ - std::chrono::nanoseconds{1});
  }

  /// Returns true if an entry may be before another, by their steps.
  bool ordered(slot before, slot after) const noexcept {
    return (*this)[before].expires_at.time_since_epoch() / step_ <=
           (*this)[after].expires_at.time_since_epoch() / step_;
  }

  /// Removes an entry. The caller destroys what is left of it, when it can bear calls by the destructors.
  taken take(slot s) noexcept {
    unlink(s);
    --size_;
    entry& e = (*this)[s];
    taken left{std::move(e.key), std::move(e.value)};
    e.~entry();
    links_[s].after = std::exchange(free_, s);
    return left;
  }

 private:
  struct link {
    slot before;
    slot after;  // of a free place: the next free one
  };
  union place {
    place() noexcept {}   // NOLINT(modernize-use-equals-default): nothing is constructed
    ~place() noexcept {}  // NOLINT(modernize-use-equals-default)
    entry used;
  };

  void append(slot s) noexcept {
    links_[s] = {last_, none};
    (last_ == none ? first_ : links_[last_].after) = s;
    last_ = s;
  }

  void unlink(slot s) noexcept {
    const link l = links_[s];
    (l.before == none ? first_ : links_[l.before].after) = l.after;
    (l.after == none ? last_ : links_[l.after].before) = l.before;
  }

  // Two arrays: lookups need no links, and find more entries in the cache without them.
  std::unique_ptr<place[]> places_;
  std::unique_ptr<link[]> links_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::chrono::nanoseconds step_{};
  clock::time_point step_begin_{};  // of the step of the last renewal
  clock::time_point step_end_{};
  slot unused_ = 0;   // the places from here on were never used
  slot free_ = none;  // the first of the places that were used
  slot first_ = none;
  slot last_ = none;
};

}  // namespace tickwheel::detail
