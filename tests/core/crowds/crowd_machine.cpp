#include "crowd_machine.hpp"

#include "../support/deadline_model.hpp"

#include <tickwheel/core/detail/splitmix64.hpp>
#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace tickwheel::test {

namespace {

// Mostly small ones, which turn many times in a run.
constexpr std::array geometries{
    wheel_geometry::hashed(1),
    wheel_geometry::hashed(8),
    wheel_geometry::hashed(256),
    wheel_geometry::hierarchical(2, 4),
    wheel_geometry::hierarchical(2, 8),
    wheel_geometry::hierarchical(2, 16),
    wheel_geometry::hierarchical(2, 64),
    wheel_geometry::hierarchical(2, 128),
    wheel_geometry::hierarchical(3, 4),
    wheel_geometry::hierarchical(3, 8),
    wheel_geometry::hierarchical(3, 16),
    wheel_geometry::hierarchical(4, 16),
    wheel_geometry::hierarchical(7, 64),
    wheel_geometry::hierarchical(31, 4),
    wheel_geometry{},
};

constexpr std::array<std::size_t, 6> crowds{4, 30, 200, 500, 1000, 4000};

tick saturating_add(tick a, tick b) noexcept { return a > never - b ? never : a + b; }

class crowd_machine {
 public:
  explicit crowd_machine(std::uint64_t seed)
      : random_{seed},
        places_{crowds[index_below(crowds.size())]},
        punctual_{one_in(2)},
        advances_per_mille_{std::array<std::uint64_t, 3>{20, 150, 600}[index_below(3)]},
        wheel_{geometries[index_below(geometries.size())], origin()},
        model_{places_},
        wanted_(places_),
        armed_in_(places_),
        entries_{std::make_unique<std::optional<entry>[]>(places_)} {
    for (std::size_t i = 0; i < places_; ++i) entries_[i].emplace(*this, i);
    aim();
  }

  ~crowd_machine() {
    wheel_.clear([](wheel_entry&) noexcept {});
  }

  crowd_result run(std::uint64_t operations) {
    for (std::uint64_t since_validated = 0; result_.operations < operations && !result_.mismatch; ++since_validated) {
      operation();
      check();
      if (result_.operations <= 1000 || since_validated >= 1000) {
        validate();
        since_validated = 0;
      }
    }
    validate();
    return std::move(result_);
  }

 private:
  struct entry : wheel_entry {
    entry(crowd_machine& in, std::size_t at) noexcept : wheel_entry{&fired}, owner{in}, place{at} {}
    static void fired(wheel_entry& e) noexcept {
      auto& self = static_cast<entry&>(e);
      self.owner.on_fired(self.place);
    }
    crowd_machine& owner;
    std::size_t place;
  };

  // A lone timer in the slot before, or in this round while the crowd is in the next, and others.
  enum class crowd { behind_lone, of_next_round, of_neighbours, of_rounds };

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
  tick origin() noexcept {
    switch (below(6)) {
      case 0:
        return 0;
      case 1:
        return last_tick - std::min(any_distance(62), last_tick);
      case 2:
        return (tick{1} << (1 + below(62))) - below(40);
      default:
        return any_distance(62);
    }
  }

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
    tick ahead = 0;
    switch (below(6)) {
      case 0:
        ahead = g.slots - 2 + below(4);
        break;
      case 1:
        ahead = below(3 * tick{g.slots});
        break;
      default:
        ahead = 1 + below(4);
    }
    const tick last = last_tick >> bits;
    target_ = (ahead > last - number ? last : number + ahead) << bits;
    crowd_ = static_cast<crowd>(below(4));
    wants_lone_ = true;
    noisy_ = one_in(2);
  }

  tick in(tick slot) noexcept { return saturating_add(slot, below(width_)); }
  tick before_target() noexcept { return target_ - std::min(target_, 1 + below(width_)); }

  tick any_deadline(std::size_t place) noexcept {
    if (target_ < wheel_.now() || one_in(4 * places_)) aim();
    if (!noisy_ || !one_in(8)) return in_crowd();
    switch (below(8)) {
      case 0:
      case 1:
        return saturating_add(wheel_.now(), 1 + below(16));
      case 2:
        return saturating_add(wheel_.now(), any_distance(40));
      case 3:
        return wanted_[place];  // perhaps with a dead link still where that belongs
      case 4:
        return saturating_add(model_.deadline(any_place()), below(3));
      case 5:
        return wheel_.now() - std::min(wheel_.now(), below(3));
      case 6:
        return before_target();
      default:
        return in(saturating_add(target_, turn_));
    }
  }

  tick in_crowd() noexcept {
    const bool lone = std::exchange(wants_lone_, false);
    switch (crowd_) {
      case crowd::behind_lone:
        return lone ? before_target() : in(target_);
      case crowd::of_next_round:
        return lone ? in(target_) : in(saturating_add(target_, turn_));
      case crowd::of_neighbours:
        return one_in(2) ? in(target_) : in(saturating_add(target_, width_));
      case crowd::of_rounds:
        return in(saturating_add(target_, below(3) * turn_));
    }
    return never;
  }

  void operation() {
    const std::uint64_t kind = below(1000);
    if (kind < advances_per_mille_)
      advance();
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
      for (std::size_t i = 0; i < places_; ++i) cancel(i);
  }

  void arm_any() {
    const std::size_t place = any_place();
    arm(place, any_deadline(place));
  }

  void arm(std::size_t place, tick wanted) {
    ++result_.operations;
    const tick now = wheel_.now();
    model_.arm(place, std::clamp(wanted, now < last_tick ? now + 1 : last_tick, last_tick));
    wanted_[place] = wanted;
    armed_in_[place] = pass_;
    if (in_pass_ || !one_in(8)) {
      wheel_.arm(*entries_[place], wanted);
      return;
    }
    const tick before = wheel_.next_expiry();
    const bool sooner = wheel_.arm(*entries_[place], wanted);
    if (wheel_.next_expiry() < before && !sooner) disagree("arm did not say that the next expiry came closer");
  }

  void cancel(std::size_t place) {
    ++result_.operations;
    const bool was_armed = model_.disarm(place) != never;
    if (wheel_.cancel(*entries_[place]) != was_armed) disagree("cancel did not answer whether it was armed");
  }

  // destroys an entry, wherever it is linked, and makes a new one
  void replace(std::size_t place) {
    cancel(place);
    entries_[place].emplace(*this, place);
  }

  void clear() {
    ++result_.operations;
    const std::size_t armed = model_.armed();
    std::size_t disposed = 0;
    wheel_.clear([&](wheel_entry& e) {
      ++disposed;
      if (model_.disarm(static_cast<entry&>(e).place) == never) disagree("clear disposed of an unarmed entry");
    });
    if (disposed != armed) disagree("clear did not dispose of what is armed");
    if (!wheel_.empty()) disagree("clear left entries linked");
  }

  tick any_moment() {
    const tick now = wheel_.now();
    const tick next = std::max(now, std::min(wheel_.next_expiry(), last_tick));
    if (punctual_) return one_in(3) ? std::min(next, saturating_add(now, any_distance(12))) : next;
    switch (below(12)) {
      case 0:
      case 1:
        return next;
      case 2:
        return model_.armed() != 0 ? model_.earliest() : now;
      case 3:
        return model_.armed() != 0 ? std::max(now, model_.earliest() - 1) : now;
      case 4:
        return saturating_add(now, below(width_));
      case 5:
        return std::max(now, target_ - std::min(target_, below(2 * width_)));  // while the target is emptied
      case 6:
        return saturating_add(now, one_in(20) ? any_distance(40) : below(2 * width_));
      default:
        return saturating_add(now, 1 + below(8));
    }
  }

  void advance() {
    ++result_.operations;
    const tick to = any_moment();
    const std::size_t work = punctual_ || !one_in(4) ? wheel::npos : index_below(40);
    ++pass_;
    in_pass_ = true;
    ran_ = 0;
    const tick before = wheel_.now();
    const advance_result done = wheel_.advance(to, work);
    in_pass_ = false;
    if (cleared_) return void(cleared_ = false);

    const tick now = wheel_.now();
    if (now != std::max(before, std::min(to, last_tick))) disagree("now() is not what advance was told");
    if (done.ran != ran_) disagree("advance counted other callbacks than ran");
    if (done.ran > work) disagree("advance did more than its work bound");
    if (now == last_tick) return;  // what callbacks arm at the end of time is due at once, and left for the next call
    if (done.done && model_.earliest() <= now) disagree("done, but something is due");
    if (work == wheel::npos && !done.done) disagree("not done, with unlimited work");
  }

  void on_fired(std::size_t place) noexcept {
    ++ran_;
    const tick now = wheel_.now();
    const tick deadline = model_.disarm(place);
    if (deadline == never) disagree("an entry fired that is not armed");
    if (deadline > now && deadline != never) disagree("an entry fired early");
    if (punctual_ && deadline < now) disagree("an entry fired late, though each next expiry was kept");
    if (armed_in_[place] == pass_ && now != last_tick) disagree("an entry fired in the pass that armed it");
    if (entries_[place]->armed()) disagree("an entry is armed in its own callback");
    if (result_.mismatch) return;

    switch (below(32)) {
      case 0:
      case 1:
      case 2:
      case 3:
        arm(place, any_deadline(place));
        break;
      case 4:
      case 5:
        arm_any();
        break;
      case 6:
        cancel(any_place());
        break;
      case 7:
        replace(place);
        break;
      case 8:
        replace(any_place());
        break;
      case 9:
        wheel_.sweep(4);
        break;
      case 10:
        if (one_in(100)) {
          clear();
          cleared_ = true;
        }
        break;
      default:
        break;
    }
    ask();
  }

  // Questions change what the wheel knows, so they are not asked each time.
  void ask() noexcept {
    const std::uint64_t kind = below(8);
    if (kind < 2) {
      const tick next = wheel_.next_expiry();
      if ((next == never) != (model_.armed() == 0)) disagree("next_expiry is `never` exactly when nothing is armed");
      if (next > model_.earliest()) disagree("next_expiry is later than the earliest deadline");
    }
    if (kind == 2 && model_.armed() != 0 && wheel_.expiry_bound() > std::max(model_.earliest(), wheel_.now()))
      disagree("expiry_bound is later than the earliest deadline");
  }

  void check() {
    if (wheel_.armed() != model_.armed()) disagree("armed() is not the number of armed entries");
    ask();
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

  detail::splitmix64 random_;
  std::size_t places_;
  bool punctual_;  // time goes from one `next_expiry` to the next, and no timer is late
  std::uint64_t advances_per_mille_;
  wheel wheel_;
  deadline_model model_;
  std::vector<tick> wanted_;             // the deadlines last asked for
  std::vector<std::uint64_t> armed_in_;  // the pass in which each was armed last
  std::unique_ptr<std::optional<entry>[]> entries_;
  // the slot that is crowded
  crowd crowd_ = crowd::behind_lone;
  bool wants_lone_ = false;
  bool noisy_ = false;  // some go elsewhere
  tick target_ = 0;
  tick width_ = 1;
  tick turn_ = 1;
  std::uint64_t pass_ = 1;
  bool in_pass_ = false;
  bool cleared_ = false;
  std::size_t ran_ = 0;
  crowd_result result_;
};

}  // namespace

crowd_result run_crowd(std::uint64_t seed, std::uint64_t operations) { return crowd_machine{seed}.run(operations); }

}  // namespace tickwheel::test
