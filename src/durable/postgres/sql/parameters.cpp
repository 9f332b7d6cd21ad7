#include "parameters.hpp"

#include <utility>

namespace tickwheel::durable::postgres {

namespace {

// big-endian
template <class Unsigned>
void append(std::string& to, Unsigned value) {
  for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8)
    to.push_back(static_cast<char>(value >> shift & 0xff));
}

template <class Unsigned>
std::string encoded(Unsigned value) {
  std::string bytes;
  append(bytes, value);
  return bytes;
}

}  // namespace

parameters::array::array(element_type of, std::size_t size) {
  append(bytes_, std::uint32_t{1});  // dimensions
  append(bytes_, std::uint32_t{0});  // no element is null
  append(bytes_, static_cast<std::uint32_t>(of));
  append(bytes_, static_cast<std::uint32_t>(size));
  append(bytes_, std::uint32_t{1});  // the index of the first element
}

void parameters::array::add(std::string_view bytes) {
  append(bytes_, static_cast<std::uint32_t>(bytes.size()));
  bytes_ += bytes;
}

void parameters::array::add(std::int64_t value) { add(encoded(static_cast<std::uint64_t>(value))); }
void parameters::array::add_smallint(std::int16_t value) { add(encoded(static_cast<std::uint16_t>(value))); }
void parameters::array::add_boolean(bool value) { add(std::string_view{value ? "\1" : "\0", 1}); }

parameters& parameters::add(std::int64_t value) {
  values_.push_back(encoded(static_cast<std::uint64_t>(value)));
  return *this;
}

parameters& parameters::add_boolean(bool value) {
  values_.emplace_back(1, static_cast<char>(value));
  return *this;
}

parameters& parameters::add_text(std::string_view text) {
  values_.emplace_back(text);
  return *this;
}

parameters& parameters::add(array&& elements) {
  values_.push_back(std::move(elements.bytes_));
  return *this;
}

}  // namespace tickwheel::durable::postgres
