// The requests of a round: the parent chooses them at random, and keeps what later ones refer to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace crash {

inline constexpr std::int64_t millisecond = 1'000'000;

/// Takes the first word off `rest`.
std::string_view next_word(std::string_view& rest);
std::uint64_t number_of(std::string_view word);
/// Returns the true wall clock, in nanoseconds since 1970.
std::int64_t true_wall();

/// The random numbers of a round.
class chances {
 public:
  explicit chances(std::uint64_t seed) : random_{seed} {}
  std::uint64_t below(std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random_); }
  bool chance(unsigned percent) { return below(100) < percent; }

 private:
  std::mt19937_64 random_;
};

/// A task of the round.
struct known_task {
  std::string id;
  bool is_periodic = false;
  bool is_over = false;            ///< a periodic one that was cancelled for good
  bool is_external = false;        ///< another program ends its starts
  unsigned open = 0;               ///< requests
  std::uint64_t token = 0;         ///< of the last start
  std::uint64_t former_token = 0;  ///< of the one before
};

class orders {
 public:
  /// The round.
  class client {
   public:
    /// Writes the order into the journal, and gives the command to a process. Returns the number of that process.
    virtual unsigned on_order(const std::string& journal_line, const std::string& command) = 0;
    /// Returns the time by which due times are chosen.
    virtual std::int64_t now() const = 0;

   protected:
    ~client() = default;
  };

  struct options {
    std::size_t tasks = 0;
    unsigned most_open = 6;          ///< requests for one id
    std::vector<const char*> plans;  ///< of tasks that are not periodic
    unsigned external = 0;           ///< the percentage of tasks whose plan is x
  };

  orders(client& of, chances& random, options how) : client_{of}, random_{random}, options_{std::move(how)} {}

  /// Chooses requests. Some of them are none: `none` is called.
  template <class F>
  void order_some(F&& none) {
    const std::size_t count = random_.chance(10) ? random_.below(60) : random_.below(8);
    for (std::size_t i = 0; i != count; ++i)
      if (!order_one()) none();
  }

  std::size_t made() const { return made_; }
  const std::vector<known_task>& tasks() const { return tasks_; }
  /// Returns the place of a task in `tasks`, which must be known.
  std::size_t find(const std::string& id) const { return by_id_.at(id); }
  /// Returns a new task, for which nothing was ordered yet.
  std::size_t add_task();
  /// Schedules a task that is due soon.
  void put(std::size_t which, const char* conflict, std::int64_t period_ms, const char* plan, std::int64_t delay_ms,
           std::size_t payload);
  /// The same with a due time.
  void put_at(std::size_t which, const char* conflict, std::int64_t period_ms, const char* plan, std::int64_t due,
              std::size_t payload);
  /// Returns the time in so many milliseconds.
  std::int64_t due_in(std::int64_t delay_ms) const;
  /// Orders a cancel.
  void cancel(std::size_t which) { simple("cancel", which); }
  /// Orders `done` for a start.
  void finish(std::size_t which, std::uint64_t token);

  /// Keeps what later requests refer to. `rest` follows the word `what` of a line of a process.
  void note(std::string_view what, std::string_view rest);
  /// Returns the number of answers and starts that were noted.
  std::size_t answers() const { return answers_; }

  /// Cancels the periodic tasks. Returns true while requests are open.
  bool settle();
  /// Cancels the periodic tasks again: a request without an answer took effect after the last cancel.
  void settle_again();
  /// A process has ended: its requests have no answer.
  void end(unsigned process);

 private:
  struct open_order {
    std::size_t task = 0;
    bool is_last = false;  // the last cancel
    unsigned process = 0;
  };

  bool order_one();
  void new_task();
  void schedule(std::size_t which, const char* conflict, std::int64_t period_ms);
  void finish(std::size_t which);
  void simple(const char* what, std::size_t which, bool is_last = false);
  void order(const std::string& what, std::size_t which, const std::string& written, const std::string& sent,
             bool is_last = false);

  client& client_;
  chances& random_;
  const options options_;
  std::vector<known_task> tasks_;
  std::unordered_map<std::string, std::size_t> by_id_;
  std::map<std::uint64_t, open_order> open_;
  std::uint64_t last_order_ = 0;
  std::size_t made_ = 0;
  std::size_t answers_ = 0;
};

}  // namespace crash
