// The works of begin, finish and release.
#include "../link/node_state.hpp"
#include "../sql/times.hpp"
#include "batch_work.hpp"
#include "works.hpp"

#include <algorithm>

namespace tickwheel::durable::postgres {

namespace {

class begin_work final : public batch_work {
 public:
  begin_work(begin_call& c, node_state& of) : batch_work{store_verb::begin, c, c.items.size()}, blocked_{of.blocked} {
    c.starts.clear();
  }

 private:
  begin_call& asked() const { return as<begin_call>(); }

  void write(transaction& to, const indices& which) override {
    parameters::array ids{element_type::text, which.size()}, revs{element_type::bigint, which.size()};
    for (const std::size_t i : which) {
      ids.add(asked().items[i].id);
      revs.add(static_cast<std::int64_t>(asked().items[i].rev));
    }
    to.add(statement::begin).add(static_cast<std::int64_t>(asked().session)).add(std::move(ids)).add(std::move(revs));
  }
  void on_written(const rows& started, const indices& which) override {
    for (int r = 0; r != started.size(); ++r) {
      if (started.is_null(r, 1)) return;  // none was
      const std::size_t i = which[static_cast<std::size_t>(started.integer(r, 1) - 1)];
      asked().starts.push_back({.index = i,
                                .token = static_cast<revision>(started.integer(r, 2)),
                                .attempt = static_cast<unsigned>(started.integer(r, 3)),
                                .lost = static_cast<unsigned>(started.integer(r, 4)),
                                .due = from_database(started.integer(r, 5)),
                                .period = std::chrono::nanoseconds{started.integer(r, 6)},
                                .payload = std::string{started.bytes(r, 7)}});
      blocked_.remove(id(i));
      answer(i);
    }
  }
  const std::string& id(std::size_t i) const override { return asked().items[i].id; }
  bool decide(std::size_t, const known_row&) override { return true; }
  void refuse(std::size_t) override {}  // it does not start
  bool ignores_rest() const override { return true; }
  bool is_put_off(std::size_t i) const override { return blocked_.holds(id(i), asked_at()); }
  void on_blocked(std::size_t i) override { blocked_.add(id(i), now()); }

  blocked_starts& blocked_;
};

class finish_work final : public batch_work {
 public:
  explicit finish_work(finish_call& c) : batch_work{store_verb::finish, c, c.items.size()} {
    c.results.assign(c.items.size(), finish_result::stale);
    c.pending.clear();
  }

 private:
  finish_call& asked() const { return as<finish_call>(); }

  void write(transaction& to, const indices& which) override {
    using array = parameters::array;
    const std::size_t n = which.size();
    array ids{element_type::text, n}, tokens{element_type::bigint, n}, hows{element_type::smallint, n};
    array times{element_type::bigint, n}, backs{element_type::boolean, n}, errors{element_type::text, n};
    for (const std::size_t i : which) {
      const finish_call::item& item = asked().items[i];
      ids.add(item.id);
      tokens.add(static_cast<std::int64_t>(item.token));
      hows.add_smallint(static_cast<std::int16_t>(item.how));
      times.add(std::min(to_database(item.at), never - 1));
      backs.add_boolean(item.gives_attempt_back);
      errors.add(item.error);
    }
    to.add(statement::finish)
        .add(std::move(ids))
        .add(std::move(tokens))
        .add(std::move(hows))
        .add(std::move(times))
        .add(std::move(backs))
        .add(std::move(errors));
  }
  void on_written(const rows& ended, const indices& which) override {
    for (int r = 0; r != ended.size(); ++r) {
      if (ended.is_null(r, 1)) return;
      const std::size_t i = which[static_cast<std::size_t>(ended.integer(r, 1) - 1)];
      asked().results[i] = finish_result::finished;
      answer(i);
      if (static_cast<task_state>(ended.integer(r, 2)) != task_state::pending) continue;
      asked().pending.push_back({.partition = static_cast<partition_number>(ended.integer(r, 3)),
                                 .id = std::string{ended.bytes(r, 4)},
                                 .rev = static_cast<revision>(ended.integer(r, 5)),
                                 .at = from_database(ended.integer(r, 6)),
                                 .bytes = static_cast<std::uint32_t>(ended.integer(r, 7)),
                                 .lost = static_cast<std::uint16_t>(ended.integer(r, 8))});
    }
  }
  const std::string& id(std::size_t i) const override { return asked().items[i].id; }
  bool decide(std::size_t i, const known_row& row) override {
    const revision token = asked().items[i].token;
    if (row.exists && token != 0 && row.ended == token) {
      asked().results[i] = finish_result::finished;
      return true;
    }
    return !row.exists || row.state != task_state::running || row.rev != token;  // another client holds it
  }
  // the row is still running
  void refuse(std::size_t i) override { asked().results[i] = finish_result::unknown; }
  bool leave(std::size_t i) override {
    refuse(i);
    return true;
  }
};

class release_work final : public work {
 public:
  explicit release_work(release_call& c) : work{store_verb::release, &c} {}

  // A finish may wait for a row that another client holds.
  bool must_follow(const work& earlier) const override {
    return earlier.verb() == store_verb::begin || earlier.verb() == store_verb::release;
  }
  bool is_about(std::string_view) const override { return false; }

 private:
  void on_ask(transaction& to) override {
    const release_call& c = as<release_call>();
    parameters::array parts{element_type::smallint, c.partitions.size()};
    for (const partition_number p : c.partitions) parts.add_smallint(static_cast<std::int16_t>(p));
    (void)to.add(statement::read_clock);
    to.add(statement::release)
        .add(static_cast<std::int64_t>(c.session))
        .add(std::move(parts))
        .add(static_cast<std::int64_t>(c.to));
  }
  void on_committed(const transaction& of) override {
    call()->now = from_database(of.of(0).integer(0, 0));
    end();
  }
};

}  // namespace

std::unique_ptr<work> make_begin(begin_call& c, node_state& of) { return std::make_unique<begin_work>(c, of); }
std::unique_ptr<work> make_finish(finish_call& c) { return std::make_unique<finish_work>(c); }
std::unique_ptr<work> make_release(release_call& c) { return std::make_unique<release_work>(c); }

}  // namespace tickwheel::durable::postgres
