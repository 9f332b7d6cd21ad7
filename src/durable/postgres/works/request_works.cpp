// The works of put, cancel, revive, get, list and purge.
#include "../../batch_limits.hpp"
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
#include "batch_work.hpp"
#include "works.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tickwheel::durable::postgres {

namespace {

// a row that is missing after so many writes was refused: a trigger ignores the insert
constexpr std::uint8_t most_missing = 3;

// the first column of a `task_info`
constexpr int info_column = 2;

task_info info_at(const rows& of, int r) {
  const auto integer = [&](int column) { return of.integer(r, info_column + column); };
  return {.what = {.id = std::string{of.bytes(r, info_column)},
                   .due = from_database(integer(3)),
                   .payload = std::string{of.bytes(r, info_column + 9)},
                   .period = std::chrono::nanoseconds{integer(4)}},
          .state = static_cast<task_state>(integer(1)),
          .next = from_database(integer(2)),
          .attempts = static_cast<unsigned>(integer(5)),
          .lost = static_cast<unsigned>(integer(6)),
          .cancelling = of.boolean(r, info_column + 7),
          .last_error = std::string{of.bytes(r, info_column + 8)}};
}

parameters::array ids_of(const std::vector<std::string>& ids) {
  parameters::array made{element_type::text, ids.size()};
  for (const std::string& id : ids) made.add(id);
  return made;
}

parameters::array ids_of(const std::vector<std::string>& ids, const indices& which) {
  parameters::array made{element_type::text, which.size()};
  for (const std::size_t i : which) made.add(ids[i]);
  return made;
}

class put_work final : public batch_work {
 public:
  explicit put_work(put_call& c) : batch_work{store_verb::put, c, c.items.size()}, missing_(c.items.size()) {
    c.results.assign(c.items.size(), {schedule_result::unavailable});
  }

 private:
  put_call& asked() const { return as<put_call>(); }

  // Most tasks are new. The statement that reads the rows of the others writes them again.
  void write(transaction& to, const indices& which) override {
    using array = parameters::array;
    const std::size_t n = which.size();
    const bool may_be_new = looks() == 0 && std::none_of(which.begin(), which.end(), [this](std::size_t i) {
                              return asked().items[i].conflict == on_conflict::replace;
                            });
    array ids{element_type::text, n}, dues{element_type::bigint, n}, periods{element_type::bigint, n};
    array payloads{element_type::bytes, n}, replaces{element_type::boolean, n};
    for (const std::size_t i : which) {
      const put_call::item& item = asked().items[i];
      ids.add(item.what.id);
      dues.add(to_database(item.what.due));
      periods.add(std::int64_t{item.what.period.count()});
      payloads.add(item.what.payload);
      replaces.add_boolean(item.conflict == on_conflict::replace);
    }
    parameters& values = to.add(may_be_new ? statement::put_new : statement::put);
    values.add(std::move(ids)).add(std::move(dues)).add(std::move(periods)).add(std::move(payloads));
    if (!may_be_new) values.add(std::move(replaces));
  }
  void on_written(const rows& written, const indices&) override {
    if (written.is_null(0, 1)) return;
    for (int r = 0; r != written.size(); ++r) {
      const auto i = find(written.bytes(r, 1));
      if (!i) continue;  // a trigger has changed the id
      const bool is_new = written.boolean(r, 4);
      if (written.is_null(r, 2))
        refuse(*i);
      else
        asked().results[*i] = {is_new ? schedule_result::scheduled : schedule_result::replaced,
                               static_cast<revision>(written.integer(r, 2)),
                               static_cast<partition_number>(written.integer(r, 3))};
      answer(*i);
    }
  }
  const std::string& id(std::size_t i) const override { return asked().items[i].what.id; }
  bool decide(std::size_t i, const known_row& row) override {
    schedule_result& result = asked().results[i].result;
    const bool keeps = asked().items[i].conflict == on_conflict::keep;
    if (row.is_forgotten) return false;  // another client holds it, perhaps to purge it
    if (!row.exists) {
      if (++missing_[i] < most_missing) return false;  // it has just been purged
      result = schedule_result::refused;
    } else if (keeps) {
      const bool is_alive = row.state == task_state::pending || row.state == task_state::running;
      result = is_alive ? schedule_result::exists : schedule_result::ended;
    } else if (row.state == task_state::running) {
      result = schedule_result::running;
    } else {
      return false;  // another client holds it
    }
    return true;
  }
  void refuse(std::size_t i) override { asked().results[i].result = schedule_result::refused; }
  bool leave(std::size_t) override { return true; }

  std::vector<std::uint8_t> missing_;  // how often a look has found no row
};

class cancel_work final : public batch_work {
 public:
  explicit cancel_work(cancel_call& c) : batch_work{store_verb::cancel, c, c.ids.size()} {
    c.results.assign(c.ids.size(), cancel_result::unavailable);
  }

 private:
  cancel_call& asked() const { return as<cancel_call>(); }

  void write(transaction& to, const indices& which) override {
    to.add(statement::cancel).add(ids_of(asked().ids, which));
  }
  void on_written(const rows& cancelled, const indices& which) override {
    for (int r = 0; r != cancelled.size(); ++r) {
      if (cancelled.is_null(r, 1)) return;
      const std::size_t i = which[static_cast<std::size_t>(cancelled.integer(r, 1) - 1)];
      const bool was_running = static_cast<task_state>(cancelled.integer(r, 2)) == task_state::running;
      if (cancelled.boolean(r, 3))
        asked().results[i] = was_running ? cancel_result::running : cancel_result::cancelled;
      else
        refuse(i);
      answer(i);
    }
  }
  const std::string& id(std::size_t i) const override { return asked().ids[i]; }
  bool decide(std::size_t i, const known_row& row) override {
    cancel_result& result = asked().results[i];
    if (!row.exists)
      result = cancel_result::not_found;
    else if (row.state == task_state::finished)
      result = cancel_result::finished;
    else if (row.state == task_state::cancelled)
      result = cancel_result::cancelled;
    else
      return false;  // another client holds it
    return true;
  }
  void refuse(std::size_t) override {}  // unavailable
  bool leave(std::size_t) override { return true; }
};

class revive_work final : public batch_work {
 public:
  explicit revive_work(revive_call& c) : batch_work{store_verb::revive, c, c.ids.size()} {
    c.results.assign(c.ids.size(), {revive_result::unavailable});
  }

 private:
  revive_call& asked() const { return as<revive_call>(); }

  void write(transaction& to, const indices& which) override {
    to.add(statement::revive).add(ids_of(asked().ids, which));
  }
  void on_written(const rows& revived, const indices& which) override {
    for (int r = 0; r != revived.size(); ++r) {
      if (revived.is_null(r, 1)) return;
      const std::size_t i = which[static_cast<std::size_t>(revived.integer(r, 1) - 1)];
      asked().results[i] = {revive_result::revived, static_cast<revision>(revived.integer(r, 2)),
                            static_cast<partition_number>(revived.integer(r, 3))};
      answer(i);
    }
  }
  const std::string& id(std::size_t i) const override { return asked().ids[i]; }
  bool decide(std::size_t i, const known_row& row) override {
    if (row.exists && row.state == task_state::dead) return false;  // another client holds it
    asked().results[i].result = row.exists ? revive_result::not_dead : revive_result::not_found;
    return true;
  }
  void refuse(std::size_t) override {}  // unavailable
  bool leave(std::size_t) override { return true; }
};

class get_work final : public work {
 public:
  explicit get_work(get_call& c) : work{store_verb::get, &c} {}

 private:
  bool must_follow(const work& earlier) const override {
    const auto& ids = as<get_call>().ids;
    return std::any_of(ids.begin(), ids.end(), [&](const std::string& id) { return earlier.is_about(id); });
  }
  bool is_about(std::string_view wanted) const override {
    const auto& ids = as<get_call>().ids;
    return places_.find(wanted, ids.size(), [&](std::size_t i) -> std::string_view { return ids[i]; }).has_value();
  }
  void on_ask(transaction& to) override {
    (void)to.add(statement::read_clock);
    to.add(statement::get).add(ids_of(as<get_call>().ids));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<get_call>();
    c.now = from_database(of.of(0).integer(0, 0));
    c.results.assign(c.ids.size(), std::nullopt);
    const rows found = of.of(1);
    for (int r = 0; r != found.size(); ++r)
      c.results[static_cast<std::size_t>(found.integer(r, 1) - 1)] = info_at(found, r);
    end();
  }

  mutable id_places places_;
};

class list_work final : public work {
 public:
  explicit list_work(list_call& c) : work{store_verb::list, &c} {}

 private:
  void on_ask(transaction& to) override {
    const list_call& c = as<list_call>();
    (void)to.add(statement::read_clock);
    const bool is_dead = c.state == task_state::dead;
    parameters& values = to.add(is_dead ? statement::list_dead : statement::list);
    if (!is_dead) values.add(static_cast<std::int64_t>(c.state));
    values.add_text(c.after).add(static_cast<std::int64_t>(c.limit));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<list_call>();
    c.now = from_database(of.of(0).integer(0, 0));
    c.results.clear();
    const rows found = of.of(1);
    for (int r = 0; r != found.size(); ++r) c.results.push_back(info_at(found, r));
    end();
  }
};

class purge_work final : public work {
 public:
  purge_work(purge_call& c, purge_mark& mark) : work{store_verb::purge, &c}, mark_{mark} {}

 private:
  // it deletes rows that nobody sees, and passes over those that another statement has locked
  bool must_follow(const work&) const override { return false; }
  bool is_about(std::string_view) const override { return false; }
  void on_ask(transaction& to) override {
    to.add(statement::purge)
        .add(static_cast<std::int64_t>(as<purge_call>().limit))
        .add(mark_.next(detail::limits.purge_again));
  }
  void on_committed(const transaction& of) override {
    auto& c = as<purge_call>();
    c.now = from_database(of.of(0).integer(0, 0));
    c.purged = static_cast<std::size_t>(of.of(0).integer(0, 1));
    mark_.advance(of.of(0).integer(0, 0), of.of(0).integer(0, 2), c.purged >= c.limit);
    end();
  }

  purge_mark& mark_;
};

}  // namespace

std::unique_ptr<work> make_put(put_call& c) { return std::make_unique<put_work>(c); }
std::unique_ptr<work> make_cancel(cancel_call& c) { return std::make_unique<cancel_work>(c); }
std::unique_ptr<work> make_revive(revive_call& c) { return std::make_unique<revive_work>(c); }
std::unique_ptr<work> make_get(get_call& c) { return std::make_unique<get_work>(c); }
std::unique_ptr<work> make_list(list_call& c) { return std::make_unique<list_work>(c); }
std::unique_ptr<work> make_purge(purge_call& c, node_state& of) { return std::make_unique<purge_work>(c, of.purged); }

}  // namespace tickwheel::durable::postgres
