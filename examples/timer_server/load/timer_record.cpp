#include "timer_record.hpp"

#include "../text/times.hpp"

#include <charconv>
#include <system_error>
#include <utility>

namespace timer_load {

void timer_record::confirm(std::optional<wall_time> due, fault_counts& found) {
  is_confirmed_ = true;
  if (!due) return;
  if (is_due_known_)
    found.wrong_key += *due != due_;
  else
    learn_due(*due, found);
}

// With `in` the store decides.
void timer_record::learn_due(wall_time due, fault_counts& found) {
  found.early += due < due_;
  due_ = due;
  is_due_known_ = true;
}

void timer_record::answer(change_answer what) {
  is_changing_ = false;
  change_ = what;
  if (what != change_answer::replaced) return;
  std::swap(due_, other_);
  is_due_known_ = true;
}

void timer_record::call(const std::string& id, const call_headers& headers, wall_time at, fault_counts& found) {
  wall_time due{};
  const bool has_due = timer_server::read_moment(headers.due, due) == nullptr;
  if (has_due && !is_due_known_ && due != other_) learn_due(due, found);
  const bool was_replaced = change_ == change_answer::replaced && due == other_;
  const bool is_right = has_due && (due == due_ || was_replaced || (may_be_replaced() && due == other_)) &&
                        headers.due == timer_server::write_moment(due) &&
                        headers.key == id + ':' + std::string{headers.due};
  found.wrong_key += !is_right;
  found.after_replacing += was_replaced;
  found.early += at < (is_right ? due : due_);

  if (is_excused()) found.after_cancel += change_ == change_answer::cancelled || ++calls_after_answer_ > 1;

  std::uint64_t token = 0;
  const auto [end, error] = std::from_chars(headers.token.data(), headers.token.data() + headers.token.size(), token);
  const bool is_number = error == std::errc{} && end == headers.token.data() + headers.token.size();
  found.stale_token += !is_number || token <= token_;
  if (is_number) token_ = token;

  repeats_ += is_right && due == called_for_;
  called_for_ = is_right ? due : due_;
  if (calls_++ == 0) {
    first_called_at_ = at;
    first_called_for_ = called_for_;
  }
}

}  // namespace timer_load
