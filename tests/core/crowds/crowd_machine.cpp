#include "crowd_machine.hpp"

#include "../../../src/core/pace.hpp"

#include <tickwheel/core/detail/splitmix64.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace tickwheel::test {

namespace {

// Mostly small ones, which turn many times in a run.
constexpr wheel_geometry geometries[]{{1, 1}, {1, 8}, {1, 256}, {2, 4},  {2, 8},  {2, 16}, {2, 64}, {2, 128},
                                      {3, 4}, {3, 8}, {3, 16},  {4, 16}, {7, 64}, {31, 4}, {}};

constexpr std::array<std::size_t, 6> crowds{4, 30, 200, 500, 1000, 4000};

// Draws everything that is random, and first of all the wheel.
class dice {
 protected:
  explicit dice(std::uint64_t seed)
      : random_{seed},
        places_{crowds[index_below(crowds.size())]},
        punctual_{one_in(2)},
        advances_per_mille_{std::array<std::uint64_t, 3>{20, 150, 600}[index_below(3)]},
        geometry_{geometries[index_below(std::size(geometries))]},
        origin_{any_origin()} {}

  // One of [0, count), nearly as likely each.
  std::uint64_t below(std::uint64_t count) noexcept {
    return count <= 0xffff'ffff ? (random_.next() >> 32) * count >> 32 : random_.next() % count;
  }
  bool one_in(std::uint64_t count) noexcept { return below(count) == 0; }
  std::size_t index_below(std::size_t n) noexcept { return static_cast<std::size_t>(below(n)); }
  std::size_t any_place() noexcept { return index_below(places_); }
  // Of any magnitude.
  tick any_distance(unsigned bits) noexcept { return below(tick{1} << (1 + below(bits))); }

  // Anywhere in the range of ticks, and often near its ends or a turn.
  tick any_origin() noexcept {
    const std::uint64_t kind = below(6);
    if (kind == 0) return 0;
    if (kind == 1) return last_tick - std::min(any_distance(62), last_tick);
    if (kind == 2) return (tick{1} << (1 + below(62))) - below(40);
    return any_distance(62);
  }

  detail::splitmix64 random_;
  std::size_t places_;
  bool punctual_;  // time goes from one `next_expiry` to the next, and no timer is late
  std::uint64_t advances_per_mille_;
  wheel_geometry geometry_;
  tick origin_;
};

class crowd_machine : private dice, private compared_wheel {
 public:
  explicit crowd_machine(std::uint64_t seed) : dice{seed}, compared_wheel{geometry_, origin_, places_} { aim(); }

  comparison run(std::uint64_t operations) {
    for (std::uint64_t since_validated = 0; result_.operations < operations && !result_.mismatch; ++since_validated) {
      operation();
      check_counts();
      ask();
      if (result_.operations <= 1000 || since_validated >= 1000) {
        validate();
        since_validated = 0;
      }
    }
    validate();
    return std::move(result_);
  }

  using compared_wheel::repeat;
  std::vector<std::size_t> bounds() const { return bounds_; }

 private:
  // A few timers in the slot before, or in this round while the crowd is in the next, and others.
  enum class crowd { behind_few, of_next_round, of_neighbours, of_rounds };

  // Picks the slot to be crowded, and how: mostly one of a coarse level that is a few slots ahead, or at the other end of
  // its turn.
  void aim() noexcept {
    const wheel_geometry& g = wheel_.geometry();
    const unsigned level =
        g.levels == 1 || one_in(6) ? 0 : static_cast<unsigned>(1 + below(std::min(g.levels - 1, 3U)));
    const unsigned bits = g.width_bits(level);
    width_ = tick{1} << bits;
    turn_ = bits + g.slot_bits() < 64 ? width_ * g.slots : never / 4;
    const tick number = wheel_.now() >> bits;
    const std::uint64_t where = below(6);
    const tick ahead = where == 0 ? g.slots - 2 + below(4) : where == 1 ? below(3 * tick{g.slots}) : 1 + below(4);
    const tick last = last_tick >> bits;
    target_ = (ahead > last - number ? last : number + ahead) << bits;
    crowd_ = static_cast<crowd>(below(4));
    few_left_ = below(2 * pace.sparse + 1);
    noisy_ = one_in(2);
  }

  tick in(tick slot) noexcept { return saturating_add(slot, below(width_)); }
  tick before_target() noexcept { return target_ - std::min(target_, 1 + below(width_)); }

  tick any_deadline(std::size_t place) noexcept {
    if (target_ < wheel_.now() || one_in(4 * places_)) aim();
    if (!noisy_ || !one_in(8)) return in_crowd();
    const tick now = wheel_.now();
    const std::uint64_t kind = below(8);
    if (kind < 2) return saturating_add(now, 1 + below(16));
    if (kind == 2) return saturating_add(now, any_distance(40));
    if (kind == 3) return wanted_[place];  // perhaps with a dead link still where that belongs
    if (kind == 4) return saturating_add(model_.deadline(any_place()), below(3));
    if (kind == 5) return now - std::min(now, below(3));
    if (kind == 6) return before_target();
    return in(saturating_add(target_, turn_));
  }

  tick in_crowd() noexcept {
    const bool few = few_left_ != 0;
    few_left_ -= few;
    if (crowd_ == crowd::behind_few) return few ? before_target() : in(target_);
    if (crowd_ == crowd::of_next_round) return few ? in(target_) : in(saturating_add(target_, turn_));
    if (crowd_ == crowd::of_neighbours) return one_in(2) ? in(target_) : in(saturating_add(target_, width_));
    return in(saturating_add(target_, below(3) * turn_));
  }

  void operation() {
    const std::uint64_t kind = below(1000);
    if (kind < advances_per_mille_)
      advance_any();
    else if (kind < 800)
      arm_any();
    else if (kind < 820)
      for (std::uint64_t i = below(60); i != 0; --i) arm_any();
    else if (kind < 950)
      cancel(any_place());
    else if (kind < 990)
      replace(any_place());
    else if (kind < 997)
      aim();
    else if (kind < 999)
      wheel_.sweep(index_below(100));
    else if (one_in(10))
      clear();
    else if (one_in(10))
      cancel_all();
  }

  void arm_any() {
    const std::size_t place = any_place();
    arm_and_check(place, any_deadline(place));
  }

  void arm_and_check(std::size_t place, tick wanted) { arm(place, wanted, !in_pass_ && one_in(8)); }

  tick any_moment() {
    const tick now = wheel_.now();
    const tick next = std::max(now, std::min(wheel_.next_expiry(), last_tick));
    if (punctual_) return one_in(3) ? std::min(next, saturating_add(now, any_distance(12))) : next;
    const std::uint64_t kind = below(12);
    if (kind < 2) return next;
    if (kind == 2) return model_.armed() != 0 ? model_.earliest() : now;
    if (kind == 3) return model_.armed() != 0 ? std::max(now, model_.earliest() - 1) : now;
    if (kind == 4) return saturating_add(now, below(width_));
    if (kind == 5) return std::max(now, target_ - std::min(target_, below(2 * width_)));  // while the target is emptied
    if (kind == 6) return saturating_add(now, one_in(20) ? any_distance(40) : below(2 * width_));
    return saturating_add(now, 1 + below(8));
  }

  void advance_any() {
    const tick to = any_moment();
    advance(to, punctual_ || !one_in(4) ? wheel::npos : index_below(40));
  }

  void on_fired(std::size_t place, tick deadline) noexcept override {
    if (punctual_ && deadline < wheel_.now()) disagree("an entry fired late, though each next expiry was kept");
    if (result_.mismatch) return;
    const std::uint64_t kind = below(32);
    if (kind < 4)
      arm(place, any_deadline(place));
    else if (kind < 6)
      arm_any();
    else if (kind == 6)
      cancel(any_place());
    else if (kind < 9)
      replace(kind == 7 ? place : any_place());
    else if (kind == 9)
      wheel_.sweep(4);
    else if (kind == 10 && one_in(100))
      clear();
    else if (kind == 11 && !punctual_)
      stop();
    ask();
  }

  // Questions change what the wheel knows, so they are not asked each time.
  void ask() noexcept {
    const std::uint64_t kind = below(8);
    if (kind < 2) check_next_expiry();
    if (kind == 2 && model_.armed() != 0 && wheel_.expiry_bound() > std::max(model_.earliest(), wheel_.now()))
      disagree("expiry_bound is later than the earliest deadline");
  }

  // the slot that is crowded
  crowd crowd_ = crowd::behind_few;
  std::uint64_t few_left_ = 0;
  bool noisy_ = false;  // some go elsewhere
  tick target_ = 0;
  tick width_ = 1;
  tick turn_ = 1;
};

}  // namespace

comparison run_crowd(std::uint64_t seed, std::uint64_t operations) {
  crowd_machine machine{seed};
  comparison result = machine.run(operations);
  if (result.mismatch) return result;
  crowd_machine without_stops{seed};
  without_stops.repeat(machine.bounds());
  comparison again = without_stops.run(operations);
  if (!again.mismatch && (again.order != result.order || again.fired != result.fired))
    again.mismatch = "a pass that a callback stopped is not the same as one whose work bound was reached there";
  result.operations += again.operations;
  result.mismatch = std::move(again.mismatch);
  return result;
}

}  // namespace tickwheel::test
