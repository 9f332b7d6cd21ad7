// A wheel whose operations are repeated on a model, and compared.
#pragma once

#include "deadline_model.hpp"

#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::test {

/// The outcome of a run of operations.
struct comparison {
  std::uint64_t operations = 0;         ///< those of callbacks included
  std::uint64_t fired = 0;              ///< callbacks that ran
  std::uint64_t order = 0;              ///< a hash of which ran, in which order, and in which operation
  std::optional<std::string> mismatch;  ///< the first difference between the wheel and the model
};

inline tick saturating_add(tick a, tick b) noexcept { return a > never - b ? never : a + b; }

/// The operations and the comparisons. A derived class decides which operations to carry out.
class compared_wheel {
 protected:
  compared_wheel(const wheel_geometry& geometry, tick origin, std::size_t places)
      : wheel_{geometry, origin}, model_{places}, wanted_(places), armed_in_(places), entries_(places) {
    for (std::size_t i = 0; i < places; ++i) entries_[i] = std::make_unique<entry>(*this, i);
  }
  virtual ~compared_wheel() {
    wheel_.clear([](wheel_entry&) noexcept {});
  }

  /// The rest of a callback: it may carry out operations.
  virtual void on_fired(std::size_t place, tick deadline) noexcept = 0;

  /// With `check_result`, checks that `arm` says when the next expiry comes closer.
  void arm(std::size_t place, tick wanted, bool check_result = false) {
    ++result_.operations;
    const tick now = wheel_.now();
    model_.arm(place, std::clamp(wanted, now < last_tick ? now + 1 : last_tick, last_tick));
    wanted_[place] = wanted;
    armed_in_[place] = pass_;
    const tick before = check_result ? wheel_.next_expiry() : 0;
    const bool sooner = wheel_.arm(*entries_[place], wanted);
    if (check_result && wheel_.next_expiry() < before && !sooner)
      disagree("arm did not say that the next expiry came closer");
  }

  void cancel(std::size_t place) {
    ++result_.operations;
    const bool was_armed = model_.disarm(place) != never;
    if (wheel_.cancel(*entries_[place]) != was_armed) disagree("cancel did not return whether it was armed");
  }

  // leaves nothing armed, but dead links, which time may skip
  void cancel_all() {
    for (std::size_t i = 0; i < entries_.size(); ++i) cancel(i);
  }

  // destroys an entry, wherever it is linked, and makes a new one
  void replace(std::size_t place) {
    cancel(place);
    entries_[place] = std::make_unique<entry>(*this, place);
  }

  void clear() {
    ++result_.operations;
    const std::size_t armed = model_.armed();
    std::size_t listed = 0;
    wheel_.for_each_armed([&](wheel_entry& e) { listed += model_.deadline(static_cast<entry&>(e).place) != never; });
    if (listed != armed) disagree("for_each_armed did not list what is armed");
    std::size_t disposed = 0;
    wheel_.clear([&](wheel_entry& e) {
      ++disposed;
      if (model_.disarm(static_cast<entry&>(e).place) == never) disagree("clear disposed of an unarmed entry");
    });
    if (disposed != armed || model_.armed() != 0) disagree("clear did not dispose of what is armed");
    if (!wheel_.empty()) disagree("clear left entries linked");
  }

  void advance(tick to, std::size_t work) {
    ++result_.operations;
    ++pass_;
    in_pass_ = true;
    ran_ = 0;
    stopped_ = false;
    const tick before = wheel_.now();
    if (repeats_) work = bounds_[advances_];
    std::size_t left = work;
    const advance_result done = wheel_.advance_within(to, left);
    in_pass_ = false;
    if (!repeats_) bounds_.push_back(stopped_ ? work - left : work);
    ++advances_;
    if (result_.mismatch) return;

    const tick now = wheel_.now();
    if (now != std::max(before, std::min(to, last_tick))) disagree("now() is not what advance was told");
    if (done.ran != ran_) disagree("advance counted other callbacks than ran");
    if (left > work || done.ran > work - left) disagree("advance did more than its work bound");
    if (now == last_tick) return;  // what callbacks arm at the end of time is due at once, and left for the next call
    if (done.done && model_.earliest() <= now) disagree("done, but something is due");
    if (!done.done && left != 0 && !stopped_) disagree("not done, though its work bound was not reached");
    // not each time, because next_in_slots searches for the next visit, which the wheel must also do without
    if (!done.done && advances_ % 2 == 0 && model_.armed() != 0 && wheel_.next_in_slots() > now)
      disagree("not done, though nothing is left");
  }

  // in a callback
  void stop() {
    ++result_.operations;
    if (repeats_) return;
    wheel_.stop_pass();
    stopped_ = true;
  }

  // Carries out the operations of a run that is over, which had these bounds. No callback stops a pass.
  void repeat(std::vector<std::size_t> bounds) noexcept {
    bounds_ = std::move(bounds);
    repeats_ = true;
  }

  // The bound of each advance: that of its visits. What a callback stopped was bounded by the visits it had made.
  std::vector<std::size_t> bounds_;

  void check_next_expiry() {
    const tick next = wheel_.next_expiry();
    if ((next == never) != (model_.armed() == 0)) disagree("next_expiry is not `never` exactly when nothing is armed");
    if (next > model_.earliest()) disagree("next_expiry is later than the earliest deadline");
  }

  void check_counts() {
    if (wheel_.armed() != model_.armed()) return disagree("armed() is not the number of armed entries");
    const wheel_counts counts = wheel_.counts();
    if (counts.armed != counts.cancelled + counts.fired + model_.armed()) return disagree("the counts do not add up");
    if (counts.fired != result_.fired) disagree("the wheel counted other callbacks than ran");
  }

  void check_deadlines() {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i]->deadline() != model_.deadline(i)) return disagree("a deadline is not what was asked for");
  }

  void validate() {
    std::string why;
    if (!result_.mismatch && !wheel_.validate(&why)) disagree(why.c_str());
  }

  void disagree(const char* what) noexcept {
    if (result_.mismatch) return;
    std::ostringstream out;
    out << what << " (operation " << result_.operations << ", tick " << wheel_.now() << ")\n";
    wheel_.dump(out);
    result_.mismatch = out.str().substr(0, 4000);
  }

  wheel wheel_;
  deadline_model model_;
  std::vector<tick> wanted_;  // the deadlines last asked for
  bool in_pass_ = false;
  comparison result_;

 private:
  struct entry : wheel_entry {
    entry(compared_wheel& in, std::size_t at) noexcept : wheel_entry{&fired}, owner{in}, place{at} {}
    static void fired(wheel_entry& e) noexcept {
      auto& self = static_cast<entry&>(e);
      self.owner.check_fired(self.place);
    }
    compared_wheel& owner;
    std::size_t place;
  };

  void check_fired(std::size_t place) noexcept {
    if (stopped_) disagree("a callback ran after another had stopped the pass");
    ++ran_;
    ++result_.fired;
    result_.order = (result_.order ^ (place + result_.operations)) * 0x9e3779b97f4a7c15;
    const tick now = wheel_.now();
    const tick deadline = model_.disarm(place);
    if (deadline == never) disagree("an entry fired that is not armed");
    if (deadline > now && deadline != never) disagree("an entry fired early");
    if (armed_in_[place] == pass_ && now != last_tick) disagree("an entry fired in the pass that armed it");
    if (entries_[place]->armed()) disagree("an entry is armed in its own callback");
    if (!result_.mismatch) on_fired(place, deadline);
  }

  std::vector<std::uint64_t> armed_in_;  // the pass in which each was armed last
  std::vector<std::unique_ptr<entry>> entries_;
  std::uint64_t pass_ = 1;
  std::size_t ran_ = 0;
  bool stopped_ = false;  // a callback has stopped the pass
  bool repeats_ = false;
  std::size_t advances_ = 0;
};

}  // namespace tickwheel::test
