// The bare wheel.
#pragma once

#include "ticked.hpp"

#include <tickwheel/core/wheel.hpp>

#include <string_view>

namespace tickwheel::bench {

struct default_shape {
  static constexpr std::string_view name = "wheel";
  static constexpr wheel_geometry geometry{};
};

struct hashed_shape {
  static constexpr std::string_view name = "wheel_hashed";
  static constexpr wheel_geometry geometry = wheel_geometry::hashed(4096);
};

template <class Shape>
struct shaped_wheel : wheel {
  using entry = wheel_entry;
  static constexpr std::string_view name = Shape::name;
  shaped_wheel() : wheel{Shape::geometry} {}
};

template <class Shape>
using wheel_subject = ticked_subject<shaped_wheel<Shape>>;

}  // namespace tickwheel::bench
