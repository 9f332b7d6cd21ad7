// The parameters of a statement, in PostgreSQL's binary format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tickwheel::durable::postgres {

/// The types whose arrays are sent, with the numbers that PostgreSQL gives them.
enum class element_type : std::uint32_t { boolean = 16, bytes = 17, bigint = 20, smallint = 21, text = 25 };

/// Values for `$1`, `$2` and so on, in their order.
class parameters {
 public:
  /// An array of the binary format: a header, and each element behind its length.
  class array {
   public:
    array(element_type of, std::size_t size);
    void add(std::string_view bytes);
    void add(std::int64_t);
    void add_smallint(std::int16_t);
    void add_boolean(bool);

   private:
    friend class parameters;
    std::string bytes_;
  };

  void clear() noexcept { values_.clear(); }
  parameters& add(std::int64_t);
  parameters& add_boolean(bool);
  parameters& add_text(std::string_view);
  parameters& add(array&&);

  int size() const noexcept { return static_cast<int>(values_.size()); }
  std::string_view value(int i) const noexcept { return values_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::string> values_;
};

}  // namespace tickwheel::durable::postgres
