#include "operations.hpp"

#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace tickwheel::test {

namespace {

constexpr std::array geometries{
    wheel_geometry::hashed(1),
    wheel_geometry::hashed(2),
    wheel_geometry::hashed(8),
    wheel_geometry::hashed(256),
    wheel_geometry::hashed(8192),
    wheel_geometry::hierarchical(2, 4),
    wheel_geometry::hierarchical(3, 4),
    wheel_geometry::hierarchical(31, 4),
    wheel_geometry::hierarchical(3, 8),
    wheel_geometry::hierarchical(4, 16),
    wheel_geometry::hierarchical(7, 64),
    wheel_geometry::hierarchical(3, 128),
    wheel_geometry{},
};

// Reads the input; past its end everything is zero.
class reader {
 public:
  explicit reader(std::span<const std::uint8_t> bytes) noexcept : bytes_{bytes} {}

  bool at_end() const noexcept { return bytes_.empty(); }

  std::uint8_t byte() noexcept {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  // Two bytes spell a distance in ticks of any magnitude: small ones exactly, large ones a power of two more or less.
  tick distance() noexcept {
    const std::uint8_t kind = byte();
    const std::uint8_t value = byte();
    if (kind < 128) return value & (kind | 7U);
    const tick power = tick{1} << (kind & 63U);
    const tick offset = value & 63U;
    return value < 64 ? power + offset : value < 128 ? power - offset : power + (power >> 8) * (value & 127U);
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

tick saturating_add(tick a, tick b) noexcept { return a > never - b ? never : a + b; }

constexpr unsigned places = 64;

// What is due and when, in a sorted map.
class model {
 public:
  // When `place` is due; `never` when it is not armed.
  tick deadline(unsigned place) const { return at_[place] ? (*at_[place])->first : never; }
  tick earliest() const { return due_.empty() ? never : due_.begin()->first; }
  std::size_t armed() const { return due_.size(); }

  void arm(unsigned place, tick deadline) {
    disarm(place);
    at_[place] = due_.emplace(deadline, place);
  }

  // Answers when it was due.
  tick disarm(unsigned place) {
    const tick was = deadline(place);
    if (at_[place]) due_.erase(*at_[place]);
    at_[place].reset();
    return was;
  }

 private:
  std::multimap<tick, unsigned> due_;
  std::array<std::optional<std::multimap<tick, unsigned>::iterator>, places> at_;
};

class machine {
 public:
  machine(reader input, wheel_geometry geometry, tick origin) : input_{input}, wheel_{geometry, origin} {
    for (unsigned i = 0; i < places; ++i) entries_[i] = std::make_unique<entry>(*this, i);
  }

  ~machine() {
    wheel_.clear([](wheel_entry&) noexcept {});
  }

  operations_result run(bool validate_each) {
    while (!input_.at_end() && !result_.mismatch) {
      operation();
      check(validate_each);
    }
    check(true);
    return std::move(result_);
  }

 private:
  struct entry : wheel_entry {
    entry(machine& in, unsigned at) noexcept : wheel_entry{&fired}, owner{in}, place{at} {}
    static void fired(wheel_entry& e) noexcept {
      auto& self = static_cast<entry&>(e);
      self.owner.on_fired(self.place);
    }
    machine& owner;
    unsigned place;
  };

  void operation() {
    const std::uint8_t code = input_.byte();
    if (code < 80)
      arm(code % places, any_deadline());
    else if (code < 112)
      arm_as_before(input_.byte() % places);
    else if (code < 144)
      cancel(input_.byte() % places);
    else if (code < 160)
      replace(input_.byte() % places);
    else if (code < 162)
      clear();
    else if (code < 168)
      cancel_all();
    else
      advance(code);
  }

  void arm(unsigned place, tick wanted) {
    ++result_.operations;
    const tick now = wheel_.now();
    const tick earliest = now < last_tick ? now + 1 : last_tick;
    model_.arm(place, std::clamp(wanted, earliest, last_tick));
    last_wanted_[place] = wanted;
    armed_in_pass_[place] = in_pass_;
    wheel_.arm(*entries_[place], wanted);
  }

  tick any_deadline() { return saturating_add(wheel_.now(), input_.distance()); }

  // To the deadline it had, perhaps with a dead link still where that belongs.
  void arm_as_before(unsigned place) { arm(place, last_wanted_[place]); }

  void cancel(unsigned place) {
    ++result_.operations;
    const bool was_armed = model_.disarm(place) != never;
    if (wheel_.cancel(*entries_[place]) != was_armed) disagree("cancel did not answer whether it was armed");
  }

  // leaves nothing armed, but dead links, which time may skip
  void cancel_all() {
    for (unsigned i = 0; i < places; ++i) cancel(i);
  }

  // destroys an entry, wherever it is linked, and makes a new one
  void replace(unsigned place) {
    cancel(place);
    entries_[place] = std::make_unique<entry>(*this, place);
  }

  void clear() {
    ++result_.operations;
    const std::size_t armed = model_.armed();
    std::size_t listed = 0;
    wheel_.for_each_armed([&](wheel_entry& e) { listed += model_.deadline(static_cast<entry&>(e).place) != never; });
    if (listed != armed) disagree("for_each_armed did not list what is armed");
    wheel_.clear([&](wheel_entry& e) {
      if (model_.disarm(static_cast<entry&>(e).place) == never) disagree("clear disposed of an unarmed entry");
    });
    if (model_.armed() != 0) disagree("clear left entries armed");
    if (!wheel_.empty()) disagree("clear left entries linked");
  }

  void advance(std::uint8_t code) {
    ++result_.operations;
    tick to = saturating_add(wheel_.now(), input_.distance());
    if (code % 8 == 0) to = std::max(wheel_.now(), std::min(wheel_.next_expiry(), last_tick));
    if (code % 8 == 1 && model_.armed() != 0) to = model_.earliest();
    const std::size_t work = code < 200 ? wheel::npos : input_.byte() % 32;

    std::fill(armed_in_pass_.begin(), armed_in_pass_.end(), false);
    in_pass_ = true;
    ran_ = 0;
    const tick before = wheel_.now();
    const advance_result done = wheel_.advance(to, work);
    in_pass_ = false;
    if (result_.mismatch) return;

    if (wheel_.now() != std::max(before, std::min(to, last_tick))) disagree("now() is not what advance was told");
    if (done.ran != ran_) disagree("advance counted other callbacks than ran");
    if (done.ran > work) disagree("advance did more than its work bound");
    // what callbacks arm at the end of time is due at once, and left for the next call
    if (done.done && model_.earliest() <= wheel_.now() && wheel_.now() != last_tick)
      disagree("done, but something is due");
    if (work == wheel::npos && !done.done && wheel_.now() != last_tick) disagree("not done, with unlimited work");
  }

  void on_fired(unsigned place) noexcept {
    ++ran_;
    ++result_.fired;
    const tick deadline = model_.disarm(place);
    if (deadline == never) disagree("an entry fired that is not armed");
    if (deadline > wheel_.now() && deadline != never) disagree("an entry fired early");
    if (armed_in_pass_[place] && wheel_.now() != last_tick) disagree("an entry fired in the pass that armed it");
    if (entries_[place]->armed()) disagree("an entry is armed in its own callback");
    if (result_.mismatch) return;

    const std::uint8_t code = input_.byte();
    if (code < 96) return;
    if (code < 160)
      arm(code < 128 ? place : code % places, any_deadline());
    else if (code < 192)
      cancel(code % places);
    else if (code < 224)
      replace(code % 2 == 0 ? place : code % places);
    else if (code == 255)
      clear();
  }

  void check(bool validate) {
    if (result_.mismatch) return;
    if (wheel_.armed() != model_.armed()) return disagree("armed() is not the number of armed entries");
    const wheel_counts counts = wheel_.counts();
    if (counts.armed != counts.cancelled + counts.fired + model_.armed()) return disagree("the counts do not add up");
    if (counts.fired != result_.fired) return disagree("the wheel counted other callbacks than ran");
    const tick next = wheel_.next_expiry();
    if ((next == never) != (model_.armed() == 0))
      return disagree("next_expiry is `never` exactly when nothing is armed");
    if (next > model_.earliest()) return disagree("next_expiry is later than the earliest deadline");
    for (unsigned i = 0; i < places; ++i)
      if (entries_[i]->deadline() != model_.deadline(i)) return disagree("a deadline is not what was asked for");
    std::string why;
    if (validate && !wheel_.validate(&why)) disagree(why.c_str());
  }

  void disagree(const char* what) noexcept {
    if (result_.mismatch) return;
    std::ostringstream out;
    out << what << " (operation " << result_.operations << ", tick " << wheel_.now() << ")\n";
    wheel_.dump(out);
    result_.mismatch = out.str();
  }

  reader input_;
  wheel wheel_;
  std::array<std::unique_ptr<entry>, places> entries_;
  model model_;
  std::array<tick, places> last_wanted_{};
  std::array<bool, places> armed_in_pass_{};
  bool in_pass_ = false;
  std::size_t ran_ = 0;
  operations_result result_;
};

}  // namespace

namespace {

// One of those with something special about them, or any other, with levels only as far as ticks reach.
wheel_geometry read_geometry(reader& in) {
  const std::uint8_t kind = in.byte();
  if (kind < 192) return geometries[kind % geometries.size()];
  wheel_geometry any{1U + in.byte() % 8U, 1U << (in.byte() % 13U)};
  while (!any.valid()) --any.levels;
  return any;
}

}  // namespace

operations_result run_operations(std::span<const std::uint8_t> input, bool validate_each) {
  reader in{input};
  const wheel_geometry geometry = read_geometry(in);
  // anywhere in the range of ticks: near its beginning, its end, or a power of two, where turns of a level begin
  const std::uint8_t kind = in.byte();
  tick origin = in.distance();
  if (kind < 64) origin = last_tick - std::min(origin, last_tick);
  if (kind >= 192) origin -= std::min<tick>(origin, kind);
  return machine{in, geometry, std::min(origin, last_tick)}.run(validate_each);
}

}  // namespace tickwheel::test
