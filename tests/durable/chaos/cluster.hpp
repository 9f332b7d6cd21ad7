// The processes of a round: starts them, gives them commands, and merges their journals.
#pragma once

#include "../crash/parent/orders.hpp"
#include "disk_watch.hpp"
#include "judge/effects.hpp"
#include "judge/merged_journal.hpp"
#include "member.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace chaos {

class cluster final : private crash::orders::client {
 public:
  /// The round.
  class observer {
   public:
    /// A process has written a line: `rest` follows the word `what`.
    virtual void on_line(const member&, std::string_view what, std::string_view rest) = 0;
    virtual void on_end(const member&) = 0;

   protected:
    ~observer() = default;
  };

  struct options {
    std::string node;      ///< the program
    std::string client;    ///< the program
    std::string folder;    ///< for the sockets of the proxies
    std::string server;    ///< the folder of the server's socket
    std::string conninfo;  ///< of the database, for SQL clients
    std::string faketime;  ///< sets the clocks of the nodes apart; empty: no library does
    std::size_t nodes = 3;
    std::size_t tasks = 0;
  };

  static constexpr unsigned most_open = 3;  ///< requests for one id

  cluster(observer&, crash::chances&, options);

  std::vector<member>& members() { return members_; }
  crash::orders& orders() { return orders_; }
  merged_journal& journal() { return journal_; }
  effects_judge& effects() { return effects_; }
  /// Returns what went wrong with a process; empty: nothing.
  const std::string& problem() const { return problem_; }

  /// Returns one of the members that fit, chosen at random; null: none does.
  template <class F>
  member* some_member(F&& fits) {
    std::vector<member*> fitting;
    for (member& m : members_)
      if (fits(m)) fitting.push_back(&m);
    return fitting.empty() ? nullptr : fitting[random_.below(fitting.size())];
  }
  member* some_client() {
    return some_member([](const member& m) { return m.is == role::client && m.is_ready; });
  }

  void start(member&);
  void kill(member&);
  void stop(member&);
  /// Ends the fault that a member has.
  void heal(member&);
  /// New connections lead to the socket in this folder, and the old ones are cut.
  void move_to(const std::string& server);

  /// Reads what the processes have written, and waits for at most a millisecond.
  void turn();
  void wait(std::chrono::milliseconds during);
  /// Waits for an answer or a start, for at most 20 ms.
  void await_answer();

  /// Writes a line into the journal. The time takes the place of the first `%`.
  void write(std::string line) { journal_.add(crash::true_wall(), std::move(line)); }
  void trouble(const member& m, const char* cause) { write("trouble % " + std::to_string(m.number) + " " + cause); }

  /// The next orders go to this member; null: to any.
  void route(member* to) { route_ = to; }
  /// The clock of the database is so far ahead of the true one.
  void set_ahead(std::int64_t ahead) { ahead_ = ahead; }

 private:
  void add_member(role);
  void bury(member&, bool was_killed);
  void read_lines(member&);
  void note(member&, std::string_view line);
  void send_externals();
  void on_answered(std::string_view rest);
  void free(const external_start&);
  void free_lost();
  std::int64_t now() const override { return crash::true_wall() + ahead_; }
  unsigned on_order(const std::string& journal_line, const std::string& command) override;

  observer& observer_;
  crash::chances& random_;
  const options options_;
  crash::orders orders_;
  std::vector<member> members_;
  merged_journal journal_;
  disk_watch disk_;
  effects_judge effects_;
  std::string problem_;
  std::int64_t ahead_ = 0;
  member* route_ = nullptr;
  external_start* external_start_ = nullptr;                                         // that the next order ends
  std::deque<external_start> waiting_;                                               // for an SQL client
  std::unordered_map<std::uint64_t, std::pair<unsigned, external_start>> external_;  // by order: the client
  std::vector<external_start> lost_external_;                                        // whose client is dead
};

}  // namespace chaos
