// The work of a call with many elements. One that the server refuses, or that another client holds, does not disturb the others.
#pragma once

#include "id_places.hpp"
#include "index_groups.hpp"
#include "work.hpp"

#include <tickwheel/durable/store.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tickwheel::durable::postgres {

/// Writes its elements in one transaction. If the server refuses one of them, or the transaction waits for a lock, it splits the
/// batch until that element is alone.
///
/// A write passes over elements that need none, and rows that another client holds. So it then reads the rows that it
/// passed over: each element is answered by the state of its row, or written again. If the caller sends elements again that are held, it
/// leaves those that are still held after some looks, and one that waits for a lock alone.
///
/// If nothing was written because the server refuses all elements, it reads the clock in the end.
class batch_work : public work {
 public:
  /// The state of an element's row.
  struct known_row {
    bool exists = false;        // and is not forgotten
    bool is_forgotten = false;  // it is there, and as good as none
    task_state state{};
    revision rev = 0;
    revision ended = 0;
  };

 protected:
  batch_work(store_verb verb, store_call& call, std::size_t size);
  /// It may leave elements that are held.
  batch_work(store_verb verb, write_call& call, std::size_t size);

  /// Adds the write of these elements.
  virtual void write(transaction&, const indices&) = 0;
  /// The write was committed. Calls `answer` for each element that was answered by it.
  virtual void on_written(const rows&, const indices&) = 0;
  /// Returns the id of an element.
  virtual const std::string& id(std::size_t) const = 0;
  /// Answers an element by the state of its row. Returns false if it shall be written again.
  virtual bool decide(std::size_t, const known_row&) = 0;
  /// The server refuses only this element.
  virtual void refuse(std::size_t) = 0;
  /// Answers an element that was not written. Returns false if there is no such answer.
  virtual bool leave(std::size_t) { return false; }
  /// Returns true if elements that were passed over need no answer.
  virtual bool ignores_rest() const { return false; }
  /// Returns true if an element shall not be written now.
  virtual bool is_put_off(std::size_t) const { return false; }
  /// An element has waited for a lock, alone.
  virtual void on_blocked(std::size_t) {}

  void answer(std::size_t i) {
    is_answered_[i] = true;
    ++answered_;
  }
  bool must_follow(const work& earlier) const final;
  bool is_about(std::string_view) const final;
  /// Returns the element with this id, if there is one.
  std::optional<std::size_t> find(std::string_view) const;

  /// Returns how often the batch has looked at rows.
  std::size_t looks() const noexcept { return looks_; }

 private:
  void on_ask(transaction&) final;
  void on_committed(const transaction&) final;
  void on_repeat() final;
  bool narrow() final;
  void on_tired() final;
  void on_refused() final;
  void on_damaged() final;
  void on_given_up() final;
  void on_looked(const rows&);
  void answer_last();
  void leave_held(const indices&);
  void put_some_off();
  void abandon(const indices&);
  void end_if_done();

  std::vector<indices> groups_;  // to be written, each in a transaction
  indices current_;              // in the transaction that was asked for last
  indices rest_;                 // to be looked at
  std::vector<bool> is_answered_;
  mutable id_places places_;
  std::size_t answered_ = 0;
  bool has_abandoned_ = false;   // elements that were not written
  bool has_unanswered_ = false;  // and there is no answer for one
  std::size_t looks_ = 0;
  bool has_begun_ = false;
  bool is_looking_ = false;
  bool waits_briefly_ = false;    // for locks, because a transaction has waited for one in vain
  write_call* writes_ = nullptr;  // the call, if it may leave elements
};

}  // namespace tickwheel::durable::postgres
