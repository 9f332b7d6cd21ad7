// A map whose entries expire: sessions, tokens, DNS answers. One timer serves all entries.
//
// Use it for data that may be used for a limited time. An expired entry is never returned, also before its timer has run.
//
//   struct server {
//     tickwheel::expiring_map<std::string, session, &server::on_expired> sessions{timers, *this};
//     int begin() noexcept {
//       return sessions.open({.capacity = 100'000, .limit = 30min, .expiry = tickwheel::expire_after::read});
//     }
//     int on_login(std::string id, session s) noexcept { return sessions.insert(std::move(id), std::move(s)); }
//     void on_request(std::string_view id) noexcept {
//       if (session* s = sessions.find(id)) s->serve();      // and it lives for another 30 minutes
//     }
//     void on_expired(std::string id, session s) noexcept;   // optional
//   };
//
// To close a connection whose peer is silent, take an `idle_timeout`. It does not count our own stalls. This map does: a limit on
// data, such as the life of a token, goes on while our loop is blocked.
#pragma once

#include <tickwheel/core/detail/nanoseconds.hpp>
#include <tickwheel/net/detail/expiry_queue.hpp>
#include <tickwheel/net/detail/hash_cells.hpp>
#include <tickwheel/uv/timer.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tickwheel {

/// Decides when the limit of an entry begins anew.
enum class expire_after : std::uint8_t {
  write,  ///< when it is inserted or assigned: for tokens and for answers that become stale
  read,   ///< also when `find` returns it: for sessions
};

/// The options of an expiring_map. An aggregate.
struct expiring_map_options {
  /// The most entries. Must be in 1..2^30. An entry that has expired counts until it is removed.
  std::size_t capacity = 0;

  /// How long an entry lives. Must be positive. One limit for all entries lets one timer serve them.
  std::chrono::nanoseconds limit{};

  /// When the limit of an entry begins anew.
  expire_after expiry = expire_after::write;

  /// The most expired entries that are removed before waiting I/O has its turn. Must be positive.
  std::size_t removals_per_pass = 256;

  /// Returns a message that names the first invalid field, or null if all fields are valid.
  constexpr const char* problem() const noexcept {
    if (capacity == 0) return "expiring_map_options::capacity is zero";
    if (capacity > detail::hash_cells::most) return "expiring_map_options::capacity is above 2^30";
    if (limit.count() <= 0) return "expiring_map_options::limit is not positive";
    if (expiry != expire_after::write && expiry != expire_after::read)
      return "expiring_map_options::expiry is none of expire_after";
    if (removals_per_pass == 0) return "expiring_map_options::removals_per_pass is zero";
    return nullptr;
  }
};

/// How the entries of an expiring_map have ended since it was opened. At any time `inserted == expired + removed + size()`.
struct expiring_map_stats {
  std::uint64_t inserted = 0;  ///< new entries
  std::uint64_t assigned = 0;  ///< entries whose value was replaced by `insert_or_assign`
  std::uint64_t expired = 0;   ///< removed because their limit had passed
  std::uint64_t removed = 0;   ///< by `erase`, `take`, `clear` or `close`, or lost when the service was closed
  std::uint64_t refused = 0;   ///< by `insert` and `insert_or_assign`, with any error
};

/// The default hash of an expiring_map: std::hash. A key that is a string may be looked up as a std::string_view or `const char*`,
/// without a copy.
template <class Key>
struct expiring_map_hash : std::hash<Key> {};

/// As above, for strings.
template <class Char, class Traits, class Allocator>
struct expiring_map_hash<std::basic_string<Char, Traits, Allocator>> {
  using is_transparent = void;  ///< allows lookups by other types
  /// Returns the hash of `key`.
  std::size_t operator()(std::basic_string_view<Char, Traits> key) const noexcept {
    return std::hash<std::basic_string_view<Char, Traits>>{}(key);
  }
};

namespace detail {

/// The class that a handler is a member of.
template <class F>
struct expiry_handler {
  struct owner {};
};
template <class R, class Owner, class... Arguments>
struct expiry_handler<R (Owner::*)(Arguments...) noexcept> {
  using owner = Owner;
};
template <class R, class Owner, class... Arguments>
struct expiry_handler<R (Owner::*)(Arguments...) const noexcept> {
  using owner = Owner;
};

template <class F, class Key, class Value>
concept takes_expired = requires(typename expiry_handler<F>::owner& self, F handler, Key&& key, Value&& value) {
  { (self.*handler)(static_cast<Key&&>(key), static_cast<Value&&>(value)) }
  noexcept;
};

/// Calls the handler of a map, if it has one.
template <auto Member, class F>
class expiry_call {
 public:
  using owner = typename expiry_handler<F>::owner;
  explicit expiry_call(owner& self) noexcept : self_{self} {}
  template <class Key, class Value>
  void call(Key&& key, Value&& value) noexcept {
    (self_.*Member)(std::forward<Key>(key), std::forward<Value>(value));
  }

 private:
  owner& self_;
};
template <>
class expiry_call<nullptr, std::nullptr_t> {
 public:
  struct owner {};
};

template <class Hash, class Equal>
concept transparent_lookup = requires {
  typename Hash::is_transparent;
  typename Equal::is_transparent;
};

}  // namespace detail

/// `Member` is nullptr, or a pointer to a noexcept member function that takes a key and a value, by value or as rvalues. libuv's C
/// frames call it, and cannot be unwound.
template <auto Member, class Key, class Value>
concept noexcept_expiry_handler = std::same_as<decltype(Member), std::nullptr_t> ||
    detail::valid(detail::takes_expired<decltype(Member), Key, Value>,
                  "the handler is not a noexcept member function that takes a key and a value");

/// `K` can be looked up in a map of these types: it is the key, it converts to the key, or hash and equality are transparent, as
/// they are for strings.
template <class K, class Key, class Hash, class Equal>
concept expiring_map_lookup =
    std::same_as<K, Key> || detail::transparent_lookup<Hash, Equal> || std::is_nothrow_convertible_v<const K&, Key>;

/// A map of at most `capacity` entries, each of which expires a limit after it was written, or read.
///
/// The time of a lookup is `timer_service::now()`, the time of the loop iteration. An entry is expired from the moment on at
/// which the limit has passed since the time of its last write or read. From then on no function returns it or finds it. Its
/// memory and its value live until the timer has run.
///
/// A callback that runs for long sees the time at which its iteration read the clock first. Within one iteration an entry disappears
/// only if `now()` moves on: `timer_service::update_now` and uv_update_time move it. So does the `start` of an idle timeout, a
/// `minimum_rate` or a `phase_timeouts`, the call of an idle timeout's handler, and an operation of a `tcp_socket` or `tcp_listener`
/// that waits with a duration.
///
/// `Member`, if it is not null, is called with the key and the value of each entry that has expired, as rvalues. Other ends of an
/// entry call nothing. The entry is then no longer in the map. The handler may do anything: insert, look up, erase, clear, close
/// or destroy the map, and close or destroy the service. If a key is inserted again before the handler has run, the handler
/// still gets the expired entry. So it must not assume that the key is absent.
///
/// An entry is removed, and its handler called, when a timer for its expiry would be due, in the order of expiry. With
/// `expire_after::read` that is up to a sixteenth of the limit later, and the order is as exact. In return a read writes only the
/// entry itself. It moves the entry in the order at most 16 times per limit.
///
/// The timer removes up to `removals_per_pass` entries in one pass. The next pass follows after I/O, and without a wait. A
/// handler that is slow is reported as slow with all the entries of its pass.
///
/// *References:* a pointer to a value stays valid while its entry is in the map: entries never move. An entry leaves the map
/// when it is erased or taken, when the map is cleared or closed, and in a pass after it has expired. Without a handler, an
/// expired entry may also leave when another is inserted. That can happen within the callback that looked it up, if `now()` has moved
/// on. So without a handler do not use a pointer after an `insert`. Never keep one beyond the callback that looked it up.
///
/// *Hash:* `Hash` and `Equal` are constructed for each use, and must not throw. One multiplication spreads the hash over the
/// cells. std::hash has no secret. If a peer chooses the keys, take a hash of your own that has one, in a static variable.
///
/// *Thread safety:* the loop thread only. Arming and cancelling the timer check that. Debug builds check each lookup and
/// insert. *Complexity:* lookups, `insert` and `erase` are O(1) on average and allocate nothing; `open`, `clear` and `close`
/// are O(capacity). The time comes from `timer_service::now()`, so all calls of an iteration read the clock once at most.
/// *Errors:* UV_ codes, as each function says. *Lifetime:* neither copies nor moves. It may be destroyed at any time, also in
/// its handler and by the destructor of a value. Then no handler runs. When the service is closed or destroyed, all entries are
/// lost: nothing is found any more, and no handler runs. The values are destroyed by the next `insert`, by `clear`, by `close`,
/// or with the map.
///
/// *Destructors of values:* they run within the functions that end entries, and may call the map. They must not destroy the service.
/// An `insert` that ends lost or expired entries and is called by such a destructor ends the next one: if each destructor inserts,
/// the calls nest as deep as there are such entries.
template <class Key, class Value, auto Member = nullptr, class Hash = expiring_map_hash<Key>,
          class Equal = std::equal_to<>, class F = decltype(Member)>
requires noexcept_expiry_handler<Member, Key, Value>
class expiring_map : private timer, private detail::expiry_call<Member, F> {
  using expiry_call = detail::expiry_call<Member, F>;
  static constexpr bool has_handler = !std::same_as<F, std::nullptr_t>;
  using queue = detail::expiry_queue<Key, Value>;
  using slot = typename queue::slot;

 public:
  using typename expiry_call::owner;  ///< the class of the handler

  static_assert(std::is_nothrow_move_constructible_v<Key> && std::is_nothrow_destructible_v<Key>,
                "the key of an expiring_map must have a noexcept move constructor");
  static_assert(std::is_nothrow_move_constructible_v<Value> && std::is_nothrow_destructible_v<Value>,
                "the value of an expiring_map must have a noexcept move constructor");

  /// A closed map without a handler: call `open` before the first `insert`. Requires: `service` outlives every insert.
  explicit expiring_map(timer_service& service) noexcept requires(!has_handler) : timer{service, handler()} {}

  /// A closed map whose handler is a member of `self`. Requires: `self` lives as long as this map; `service` outlives every
  /// insert.
  expiring_map(timer_service& service, owner& self) noexcept requires has_handler : timer{service, handler()},
                                                                                    expiry_call{self} {}

  ~expiring_map() { close(); }

  /// Makes room for the entries, in three blocks: 24 to 32 bytes for each, and the size of key and value.
  ///
  /// 0: it is open. On an error nothing has changed.
  /// UV_EINVAL: `options` are invalid; `options.problem()` names the field.
  /// UV_EALREADY: it is already open.
  /// UV_ENOMEM: there is no memory.
  [[nodiscard]] int open(const expiring_map_options& options) noexcept;

  /// Destroys the entries. No handler runs, and `insert` answers UV_ECANCELED. Idempotent; it may be opened again.
  void close() noexcept;
  /// Returns true between `open` and `close`.
  bool is_open() const noexcept { return queue_.capacity() != 0; }

  /// Adds an entry. Key and value are copied or moved only if the answer is 0; so an entry that was refused stays with the
  /// caller. Only a key of another type is converted first, and does not come back. Copies must be noexcept: write
  /// `insert(std::string{name}, ...)` for a string that you keep.
  ///
  /// 0: it was added. On an error only the count of refused entries has changed.
  /// UV_EEXIST: the map has this key.
  /// UV_ENOBUFS: the map has `capacity` entries. Also if it is empty, and `max_armed` timers are armed.
  /// UV_ECANCELED: the map or the service is closed.
  ///
  /// Expired entries count until they are removed, if there is a handler. Without a handler they make room: at once, or with
  /// `expire_after::read` at most a sixteenth of the limit later.
  template <class K = Key, class V = Value>
  requires std::is_nothrow_constructible_v<Key, K> && std::is_nothrow_constructible_v<Value, V>
  [[nodiscard]] int insert(K&& key, V&& value) noexcept {
    return put<false>(std::forward<K>(key), std::forward<V>(value));
  }

  /// As `insert`, but if the map has this key, its value is replaced and its limit begins anew. Pointers to the value then point
  /// to the new one.
  ///
  /// 0: the map has this value. UV_ENOBUFS, UV_ECANCELED: as `insert`.
  template <class K = Key, class V = Value>
  requires std::is_nothrow_constructible_v<Key, K> && std::is_nothrow_constructible_v<Value, V>
  [[nodiscard]] int insert_or_assign(K&& key, V&& value) noexcept {
    return put<true>(std::forward<K>(key), std::forward<V>(value));
  }

  /// Returns the value of `key`; null if there is none, or it has expired. With `expire_after::read` its limit begins anew.
  template <class K = Key>
  requires expiring_map_lookup<K, Key, Hash, Equal>
  [[nodiscard]] Value* find(const K& key) noexcept {
    const slot s = live(as_key(key));
    if (s == queue::none) return nullptr;
    return expiry_ == expire_after::read ? &read(s) : &queue_[s].value;
  }

  /// As `find`, but does not count as a read.
  template <class K = Key>
  requires expiring_map_lookup<K, Key, Hash, Equal>
  [[nodiscard]] const Value* peek(const K& key) const noexcept {
    const slot s = live(as_key(key));
    return s == queue::none ? nullptr : &queue_[s].value;
  }

  /// Returns true if `peek` would return a value.
  template <class K = Key>
  requires expiring_map_lookup<K, Key, Hash, Equal>
  [[nodiscard]] bool contains(const K& key) const noexcept { return live(as_key(key)) != queue::none; }

  /// Removes the entry of `key`, and returns true if there was one that had not expired. No handler runs for it.
  template <class K = Key>
  requires expiring_map_lookup<K, Key, Hash, Equal>
  bool erase(const K& key) noexcept { return take(key).has_value(); }

  /// As `erase`, and returns the value: for a token that may be used once. Empty if there was none.
  template <class K = Key>
  requires expiring_map_lookup<K, Key, Hash, Equal> std::optional<Value> take(const K& key)
  noexcept;

  /// Destroys as many entries as the map has at this moment, the oldest first. An entry that a destructor inserts meanwhile stays,
  /// unless destructors also erase others. No handler runs, also not for entries that have expired.
  void clear() noexcept;

  /// Returns the number of entries, including those that have expired and are not yet removed.
  std::size_t size() const noexcept { return queue_.size(); }
  /// Returns the capacity given to `open`; zero if closed.
  std::size_t capacity() const noexcept { return queue_.capacity(); }
  /// Returns the counts since `open`. They stay readable after `close`.
  const expiring_map_stats& stats() const noexcept { return stats_; }

  /// Identifies its handler; see `timer::handler`.
  static callback handler() noexcept {
    static_cast<void>(&handler_name_);  // so that it exists
    return &run;
  }

  using timer::callback;
  using timer::has_ref;  ///< as of `timer`: while the map has entries, it keeps the loop alive
  using timer::ref;      ///< as of `timer`
  using timer::unref;    ///< as of `timer`

  /// Checks every invariant. Returns false if one is broken, and `why` says which. O(capacity).
  bool validate(std::string* why = nullptr) const;

 private:
  // A loop over entries during which user code runs: handlers and destructors. They may begin others, and close or destroy the map.
  struct walk {
    walk* outer;
    bool gone = false;
  };

  template <class K>
  static decltype(auto) as_key(const K& key) noexcept {
    if constexpr (std::same_as<K, Key> || detail::transparent_lookup<Hash, Equal>)
      return static_cast<const K&>(key);
    else
      return static_cast<Key>(key);
  }

  // The timer is armed while the map has entries, and in `remove_expired`. It is not armed once the service was closed or
  // destroyed: the entries are lost then, and the service must not be asked for the time.
  bool has_lost_entries() const noexcept { return !timer::armed() && !queue_.empty(); }

  static std::chrono::nanoseconds step_of(const expiring_map_options& options) noexcept {
    const std::chrono::nanoseconds exact{1};
    return options.expiry == expire_after::read ? std::max(options.limit / 16, exact) : exact;
  }
  clock::time_point expiry_from(clock::time_point now) const noexcept { return detail::add_saturating(now, limit_); }
  static bool is_expired(const typename queue::entry& e, clock::time_point now) noexcept { return e.expires_at <= now; }

  template <class K>
  slot find_slot(const K& key, std::size_t hash) const noexcept {
    return index_.find(hash, [&](slot s) noexcept { return Equal{}(queue_[s].key, key); });
  }

  // The slot of a key that has not expired. Reading the clock is a function of its own, because a call there would save registers
  // in each lookup.
  template <class K>
  slot live(const K& key) const noexcept {
    if (!timer::armed()) return queue::none;
    service().check_thread_in_debug();
    if (!service().has_now()) [[unlikely]]
      return first_live(key);
    const slot s = find_slot(key, Hash{}(key));
    return s != queue::none && !is_expired(queue_[s], service().now()) ? s : queue::none;
  }
  // The first lookup of an iteration.
  template <class K>
  [[gnu::noinline]] slot first_live(const K& key) const noexcept {
    const auto now = service().now();
    const slot s = find_slot(key, Hash{}(key));
    return s != queue::none && !is_expired(queue_[s], now) ? s : queue::none;
  }

  Value& read(slot s) noexcept {
    const auto now = service().now();
    if (now != read_at_) [[unlikely]]
      begin_reads(now);
    auto& e = queue_[s];
    if (e.expires_at < read_step_) [[unlikely]]
      queue_.renew(s, expiry_of_reads_);
    else
      e.expires_at = expiry_of_reads_;
    return e.value;
  }
  // Reads of one iteration all begin the same limit.
  [[gnu::noinline]] void begin_reads(clock::time_point now) noexcept {
    read_at_ = now;
    expiry_of_reads_ = expiry_from(now);
    read_step_ = queue_.begin_of_step(expiry_of_reads_);
  }
  int refuse(int error) noexcept {
    ++stats_.refused;
    return error;
  }

  // After this the entry is not found any more.
  void hide(slot s, std::size_t hash) noexcept {
    index_.remove(hash, s, [this](slot other) noexcept { return Hash{}(queue_[other].key); });
  }

  typename queue::taken remove(slot s) noexcept {
    hide(s, Hash{}(queue_[s].key));
    return queue_.take(s);
  }

  template <bool assign, class K, class V>
  [[nodiscard]] int put(K&& key, V&& value) noexcept {
    if constexpr (std::same_as<std::remove_cvref_t<K>, Key>)
      return put_key<assign>(std::forward<K>(key), std::forward<V>(value));
    else
      return put_key<assign>(Key(std::forward<K>(key)), std::forward<V>(value));
  }
  template <bool assign, class K, class V>
  [[nodiscard]] int put_key(K&& key, V&& value) noexcept;
  template <class V>
  void assign_value(slot s, V&& value, clock::time_point now) noexcept;

  static void run(wheel_entry& entry) noexcept { static_cast<expiring_map&>(timer::from(entry)).remove_expired(); }
  TICKWHEEL_LOCAL inline static const named_handler handler_name_{&run, detail::name_of_type<expiring_map>()};
  void remove_expired() noexcept;
  void wait_for_first() noexcept;

  queue queue_;
  detail::hash_cells index_;
  std::chrono::nanoseconds limit_{};
  std::size_t removals_per_pass_ = 0;
  walk* walks_ = nullptr;  // those in progress
  expire_after expiry_ = expire_after::write;
  clock::time_point read_at_ = clock::time_point::min();  // the iteration of the last read, and two times for its reads
  clock::time_point expiry_of_reads_{};
  clock::time_point read_step_{};
  expiring_map_stats stats_;
};

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
int expiring_map<Key, Value, Member, Hash, Equal, F>::open(const expiring_map_options& options) noexcept {
  if (options.problem() != nullptr) return UV_EINVAL;
  if (is_open()) return UV_EALREADY;
  if (!index_.open(options.capacity)) return UV_ENOMEM;
  if (!queue_.open(options.capacity, step_of(options))) {
    index_.close();
    return UV_ENOMEM;
  }
  limit_ = options.limit;
  expiry_ = options.expiry;
  removals_per_pass_ = options.removals_per_pass;
  read_at_ = clock::time_point::min();
  stats_ = {};
  return 0;
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
void expiring_map<Key, Value, Member, Hash, Equal, F>::close() noexcept {
  if (!is_open()) return;
  for (; walks_ != nullptr; walks_ = walks_->outer) walks_->gone = true;
  timer::cancel();
  stats_.removed += queue_.size();
  index_.close();
  const queue entries =
      std::move(queue_);  // destroyed last: destructors of values find a closed map, and may destroy it
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
void expiring_map<Key, Value, Member, Hash, Equal, F>::clear() noexcept {
  walk here{walks_};
  walks_ = &here;
  for (std::size_t left = queue_.size(); left != 0 && !queue_.empty(); --left) {
    ++stats_.removed;
    static_cast<void>(remove(queue_.first()));  // its destructors may do anything
    if (here.gone) return;
  }
  walks_ = here.outer;
  if (queue_.empty()) timer::cancel();
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
template <class K>
requires expiring_map_lookup<K, Key, Hash, Equal> std::optional<Value>
expiring_map<Key, Value, Member, Hash, Equal, F>::take(const K& key)
noexcept {
  const slot s = live(as_key(key));
  if (s == queue::none) return std::nullopt;
  auto entry = remove(s);
  ++stats_.removed;
  if (queue_.empty() && walks_ == nullptr) timer::cancel();
  return std::optional<Value>{std::move(entry.value)};
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
template <bool assign, class K, class V>
int expiring_map<Key, Value, Member, Hash, Equal, F>::put_key(K&& key, V&& value) noexcept {
  if (!service().is_open()) return refuse(refuse_when_closed());
  if (!is_open()) return refuse(UV_ECANCELED);
  service().check_thread_in_debug();
  if (has_lost_entries()) [[unlikely]] {
    walk here{walks_};
    walks_ = &here;
    do {  // a destructor may insert: the timer is then armed, and no entry is lost
      ++stats_.removed;
      static_cast<void>(remove(queue_.first()));
      if (here.gone) return UV_ECANCELED;
    } while (has_lost_entries());
    walks_ = here.outer;
  }
  const auto now = service().now();
  const std::size_t hash = Hash{}(std::as_const(key));
  slot old = find_slot(std::as_const(key), hash);
  if (old != queue::none && !is_expired(queue_[old], now)) {
    if constexpr (assign) {
      assign_value(old, std::forward<V>(value), now);
      return 0;
    }
    return refuse(UV_EEXIST);
  }

  const auto expires_at = expiry_from(now);
  // An expired entry without a handler ends now: that of this key, or the first if the map is full.
  if constexpr (!has_handler) {
    if (old == queue::none && queue_.full() && is_expired(queue_[queue_.first()], now)) old = queue_.first();
    if (old != queue::none) {
      Key own_key(std::forward<K>(key));  // first: `key` and `value` may belong to the entry that ends
      Value own_value(std::forward<V>(value));
      [[maybe_unused]] const auto ended = remove(old);  // its destructors run last, and may do anything
      ++stats_.expired;
      index_.add(hash, queue_.add(std::move(own_key), std::move(own_value), expires_at));
      ++stats_.inserted;
      return 0;
    }
  }
  if (queue_.full()) return refuse(UV_ENOBUFS);
  if (!timer::armed()) {
    if (const int error = timer::arm_at(expires_at)) return refuse(error);
  }
  if (old != queue::none) hide(old, hash);  // it waits for its handler
  index_.add(hash, queue_.add(std::forward<K>(key), std::forward<V>(value), expires_at));
  ++stats_.inserted;
  return 0;
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
template <class V>
void expiring_map<Key, Value, Member, Hash, Equal, F>::assign_value(slot s, V&& value, clock::time_point now) noexcept {
  Value made(std::forward<V>(value));  // first: `value` may be the old one
  queue_.renew(s, expiry_from(now));
  ++stats_.assigned;
  Value& place = queue_[s].value;
  [[maybe_unused]] const Value old(std::move(place));  // destroyed last: its destructor may do anything
  std::destroy_at(&place);
  std::construct_at(&place, std::move(made));
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
void expiring_map<Key, Value, Member, Hash, Equal, F>::remove_expired() noexcept {
  timer::arm_again_at(clock::time_point::max());  // keeps its place, so that a handler can insert
  walk here{walks_};
  walks_ = &here;
  for (std::size_t left = removals_per_pass_; left != 0; --left) {
    // not armed: the handler has closed the service, or cleared the map
    if (!timer::armed() || queue_.empty() || !is_expired(queue_[queue_.first()], service().now())) break;
    ++stats_.expired;
    {
      auto entry = remove(queue_.first());
      if constexpr (has_handler) this->call(std::move(entry.key), std::move(entry.value));
    }
    if (here.gone) return;
  }
  walks_ = here.outer;
  wait_for_first();
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
void expiring_map<Key, Value, Member, Hash, Equal, F>::wait_for_first() noexcept {
  if (!timer::armed()) return;
  if (queue_.empty()) {
    timer::cancel();
    return;
  }
  const auto& first = queue_[queue_.first()];
  const auto now = service().now();
  if (is_expired(first, now))
    static_cast<void>(timer::arm_at(now));  // work is left: a zero delay. An armed timer is not refused.
  else
    timer::arm_again_at(first.expires_at);
}

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
requires noexcept_expiry_handler<Member, Key, Value>
bool expiring_map<Key, Value, Member, Hash, Equal, F>::validate(std::string* why) const {
  const char* broken = nullptr;
  std::size_t linked = 0;
  for (slot s = queue_.first(), last = queue::none; s != queue::none && linked <= queue_.size();
       last = s, s = queue_.after(s), ++linked) {
    const auto& e = queue_[s];
    if (queue_.before(s) != last) broken = "the entries are not linked in both directions";
    if (last != queue::none && !queue_.ordered(last, s)) broken = "the entries are not ordered by expiry";
    const bool waits_for_handler = has_handler && (!timer::armed() || is_expired(e, service().now()));
    if (!waits_for_handler && find_slot(e.key, Hash{}(e.key)) != s) broken = "an entry is not found";
  }
  if (linked != queue_.size()) broken = "the count of entries is off";
  if (queue_.size() > queue_.capacity()) broken = "there are more entries than the capacity";
  if (stats_.inserted != stats_.expired + stats_.removed + queue_.size())
    broken = "some entry has ended in no way, or in two";
  if (walks_ == nullptr && timer::armed()) {
    if (queue_.empty()) {
      broken = "the timer of an empty map is armed";
    } else {
      // by the step: an erased entry may have been later within the same step
      const auto due = std::max(queue_.end_of_step(queue_[queue_.first()].expires_at), service().now());
      if (timer::deadline() > detail::add_saturating(due, service().tick_duration()))
        broken = "the timer is later than the step of the first expiry";
    }
  }
  if (broken != nullptr && why != nullptr) *why = broken;
  return broken == nullptr;
}

namespace detail {

template <class Key, class Value, auto Member, class Hash, class Equal, class F>
inline constexpr bool stays_in_place<expiring_map<Key, Value, Member, Hash, Equal, F>> = true;

}  // namespace detail
}  // namespace tickwheel
