// The verbs that read many rows: load and list.
#pragma once

#include "../file/connection.hpp"
#include "../file/statement.hpp"
#include "../file/times.hpp"

#include <tickwheel/durable/store.hpp>

namespace tickwheel::durable::sqlite {

/// Carries the verbs out on a connection of their own. All functions throw `failure` and `std::bad_alloc`.
class reads {
 public:
  explicit reads(const connection& file);

  void load(load_call&, nanoseconds now);
  /// Fixes what `list` reads. Rows that are written later are not in it.
  void begin_list();
  /// Tasks that ended at `forgotten` or before are left out.
  void list(list_call&, nanoseconds forgotten);
  void end_list() noexcept;

 private:
  const connection& file_;
  statement load_, pending_, others_;
};

}  // namespace tickwheel::durable::sqlite
