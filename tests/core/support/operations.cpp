#include "operations.hpp"

#include <tickwheel/core/wheel.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tickwheel::test {

namespace {

constexpr wheel_geometry geometries[]{{1, 1},  {1, 2}, {1, 8},  {1, 256}, {1, 8192}, {2, 4}, {3, 4},
                                      {31, 4}, {3, 8}, {4, 16}, {7, 64},  {3, 128},  {}};

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

constexpr unsigned places = 64;

class machine : private compared_wheel {
 public:
  machine(reader input, const wheel_geometry& geometry, tick origin)
      : compared_wheel{geometry, origin, places}, input_{input} {}

  comparison run(bool validate_each) {
    while (!input_.at_end() && !result_.mismatch) {
      operation();
      check(validate_each);
    }
    check(true);
    return std::move(result_);
  }

 private:
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
      advance_by(code);
  }

  tick any_deadline() { return saturating_add(wheel_.now(), input_.distance()); }

  // To the deadline it had, perhaps with a dead link still where that belongs.
  void arm_as_before(unsigned place) { arm(place, wanted_[place]); }

  void advance_by(std::uint8_t code) {
    tick to = any_deadline();
    if (code % 8 == 0) to = std::max(wheel_.now(), std::min(wheel_.next_expiry(), last_tick));
    if (code % 8 == 1 && model_.armed() != 0) to = model_.earliest();
    advance(to, code < 200 ? wheel::npos : input_.byte() % 32);
  }

  void on_fired(std::size_t place, tick) noexcept override {
    const std::uint8_t code = input_.byte();
    if (code < 96) return;
    if (code < 160)
      arm(code < 128 ? place : code % places, any_deadline());
    else if (code < 192)
      cancel(code % places);
    else if (code < 224)
      replace(code % 2 == 0 ? place : code % places);
    else if (code >= 240 && code < 255)
      stop();
    else if (code == 255)
      clear();
  }

  void check(bool validate_it) {
    check_counts();
    check_next_expiry();
    check_deadlines();
    if (validate_it) validate();
  }

  reader input_;
};

// One of those with something special about them, or any other, with levels only as far as ticks reach.
wheel_geometry read_geometry(reader& in) {
  const std::uint8_t kind = in.byte();
  if (kind < 192) return geometries[kind % std::size(geometries)];
  wheel_geometry any{1U + in.byte() % 8U, 1U << (in.byte() % 13U)};
  while (!any.valid()) --any.levels;
  return any;
}

}  // namespace

comparison run_operations(std::span<const std::uint8_t> input, bool validate_each) {
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
