// The rows that a statement answers, in PostgreSQL's binary format.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace tickwheel::durable::postgres {

struct clear_result {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result = std::unique_ptr<PGresult, clear_result>;

/// Reads the rows of a result. A statement's columns have the types that the reader expects.
class rows {
 public:
  explicit rows(const result& of) noexcept : of_{of.get()} {}

  int size() const noexcept { return PQntuples(of_); }
  bool is_null(int row, int column) const noexcept { return PQgetisnull(of_, row, column) == 1; }
  std::string_view bytes(int row, int column) const noexcept {
    return {PQgetvalue(of_, row, column), static_cast<std::size_t>(PQgetlength(of_, row, column))};
  }
  bool boolean(int row, int column) const noexcept {
    const auto value = bytes(row, column);
    return !value.empty() && value[0] != 0;
  }
  /// Of a smallint, an integer or a bigint. 0 if it is null.
  std::int64_t integer(int row, int column) const noexcept {
    const std::string_view big_endian = bytes(row, column);
    if (big_endian.empty()) return 0;
    std::uint64_t value = (big_endian[0] & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (const char byte : big_endian) value = value << 8 | static_cast<unsigned char>(byte);
    return static_cast<std::int64_t>(value);
  }

 private:
  const PGresult* of_;
};

}  // namespace tickwheel::durable::postgres
