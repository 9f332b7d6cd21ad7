// A node: a machine, and a process on it with a scheduler. The process notes in the journal what it asks, is answered and starts.
#pragma once

#include "event_queue.hpp"
#include "journal_writer.hpp"
#include "machine.hpp"
#include "network.hpp"
#include "scenario.hpp"

#include <tickwheel/durable/durable.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace simulation {

/// The part of the world that nodes use.
struct surroundings {
  event_queue& queue;
  network& net;
  journal_writer& journal;
  /// A task has started here.
  std::function<void(unsigned node, const durable::execution&)> on_entered;
  /// A request for this id has begun (1) or ended (-1).
  std::function<void(const std::string& id, std::uint32_t process, int)> count;
  std::function<void(std::string what)> accuse;
};

class node final : public host {
 public:
  node(unsigned index, nanos shows, std::int64_t drift, durable::scheduler_options, surroundings&);
  ~node();

  // The process

  /// Starts a process, if there is none.
  void start();
  /// The process dies. Nothing of what it had sent is taken back.
  void kill();
  /// The machine loses its power.
  void lose_power(bool keeps);
  /// The process closes its scheduler, and ends.
  void close();
  void drain();
  void pause(bool on);
  /// The process stands still; with `holds_clock` the machine does.
  void stop(bool holds_clock);
  void go_on();

  /// Returns true if the process can be asked.
  bool can_ask() const noexcept { return is_open_ && !is_frozen_ && !dies_; }
  bool has_process() const noexcept { return scheduler_ != nullptr; }
  bool is_frozen() const noexcept { return is_frozen_; }
  /// Returns true once if a task has killed the process: call `kill`.
  bool dies() const noexcept { return dies_; }

  // Requests of the process

  void schedule(const event&);
  void ask(const event&);  // cancel, revive, get
  void finish(const std::string& id, std::uint32_t number, std::uint64_t token);
  /// Writes a line for each row of the store, and then calls `done`.
  void list_all(std::function<void()> done);

  // For the world

  const std::string& name() const noexcept { return name_; }
  /// Its connection has this number in the journal from now on.
  void set_process(std::uint32_t number) noexcept { process_ = number; }
  void catch_up(nanos t);
  nanos next(nanos t);
  bool validate(std::string* why) const { return scheduler_ == nullptr || scheduler_->validate(why); }
  std::size_t partitions() const { return scheduler_ != nullptr ? scheduler_->stats().partitions : 0; }
  machine& of() noexcept { return machine_; }

  // For the network
  void receive(std::function<void()> what) override;
  nanos local_now() override { return machine_.shown(); }

 private:
  void open();
  void end_process();
  void on_due(durable::execution);
  void end(durable::execution, char letter);
  void end_later(durable::execution, nanos delay);
  void list(std::size_t state, std::string after);
  void asked(const std::string& id, std::uint32_t number);
  void rejected(const std::string& id, std::uint32_t number, int error);
  void check_time(const std::string& id, nanos asked_at);
  template <class Result>
  auto note_answer(const std::string& id, std::uint32_t number);

  const unsigned index_;
  const std::string name_;
  surroundings& world_;
  machine machine_;
  durable::scheduler_options options_;
  std::unique_ptr<durable::scheduler> scheduler_;
  bool is_open_ = false;
  bool is_frozen_ = false;
  bool holds_clock_ = false;
  bool dies_ = false;
  std::uint32_t process_ = 0;
  std::uint64_t life_ = 0;  // which process
  nanos went_on_at_ = 0;    // by its clock
  std::vector<std::function<void()>> mailbox_;
  std::map<std::uint64_t, durable::execution> held_;  // by token
  std::function<void()> on_listed_;
  nanos next_ = never;
  bool is_dirty_ = true;
};

}  // namespace simulation
