// A store that counts the calls that another one has not answered.
#pragma once

#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace durable_model {

/// Passes all calls on, and counts those that are not answered.
class counting_store : public tickwheel::durable::store {
 public:
  /// `its_service`: the service of the other store, if it is not that of the scheduler.
  explicit counting_store(std::unique_ptr<store> counted, tickwheel::timer_service* its_service = nullptr)
      : counted_{std::move(counted)}, service_{its_service} {}

  static std::size_t open_calls() { return calls().size(); }

  int open(tickwheel::timer_service& timers) noexcept override {
    return counted_->open(service_ != nullptr ? *service_ : timers);
  }
  void close() noexcept override { counted_->close(); }
  std::string_view problem() const noexcept override { return counted_->problem(); }

  void join(tickwheel::durable::join_call& c) noexcept override { pass(&store::join, c); }
  void renew(tickwheel::durable::renew_call& c) noexcept override { pass(&store::renew, c); }
  void bury(tickwheel::durable::bury_call& c) noexcept override { pass(&store::bury, c); }
  void acquire(tickwheel::durable::acquire_call& c) noexcept override { pass(&store::acquire, c); }
  void release(tickwheel::durable::release_call& c) noexcept override { pass(&store::release, c); }
  void load(tickwheel::durable::load_call& c) noexcept override { pass(&store::load, c); }
  void begin(tickwheel::durable::begin_call& c) noexcept override { pass(&store::begin, c); }
  void finish(tickwheel::durable::finish_call& c) noexcept override { pass(&store::finish, c); }
  void recover(tickwheel::durable::recover_call& c) noexcept override { pass(&store::recover, c); }
  void put(tickwheel::durable::put_call& c) noexcept override { pass(&store::put, c); }
  void cancel(tickwheel::durable::cancel_call& c) noexcept override { pass(&store::cancel, c); }
  void revive(tickwheel::durable::revive_call& c) noexcept override { pass(&store::revive, c); }
  void get(tickwheel::durable::get_call& c) noexcept override { pass(&store::get, c); }
  void list(tickwheel::durable::list_call& c) noexcept override { pass(&store::list, c); }
  void purge(tickwheel::durable::purge_call& c) noexcept override { pass(&store::purge, c); }

 private:
  using answer_function = tickwheel::durable::store_call::answer;

  static std::unordered_map<tickwheel::durable::store_call*, answer_function>& calls() {
    static std::unordered_map<tickwheel::durable::store_call*, answer_function> open;
    return open;
  }

  template <class Call>
  void pass(void (store::*verb)(Call&) noexcept, Call& c) noexcept {
    calls()[&c] = std::exchange(c.on_answer, &answered);
    (*counted_.*verb)(c);
  }

  static void answered(tickwheel::durable::store_call& c) noexcept {
    const auto known = calls().extract(&c);
    c.on_answer = known.mapped();
    c.on_answer(c);
  }

  std::unique_ptr<store> counted_;
  tickwheel::timer_service* service_;
};

}  // namespace durable_model
