#include "raw_postgres.hpp"

#include "../support/bench_tasks.hpp"
#include "pipeline.hpp"

#include "../../../src/durable/postgres/sql/times.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tickwheel::bench {

namespace {

using pg::element_type;
using pg::parameters;

constexpr std::size_t batches_in_flight = 8;

class raw_postgres final : public raw_store {
 public:
  raw_postgres(const std::string& conninfo, const durable::postgres_options& options)
      : requests_{conninfo, options, pg::link_role::requests}, starts_{conninfo, options, pg::link_role::starts} {}

  void schedule(std::uint64_t first, std::size_t count, durable::clock::time_point due) override {
    in_batches(first, count, pg::statement::put_new, [&](std::uint64_t from, std::size_t n) {
      parameters::array ids{element_type::text, n}, dues{element_type::bigint, n}, periods{element_type::bigint, n};
      parameters::array payloads{element_type::bytes, n};
      for (std::size_t i = 0; i != n; ++i) {
        ids.add(id_of(from + i));
        dues.add(pg::to_database(due));
        periods.add(std::int64_t{0});
        payloads.add(payload);
      }
      parameters values;
      values.add(std::move(ids)).add(std::move(dues)).add(std::move(periods));
      values.add(std::move(payloads));
      return values;
    });
  }
  void cancel(std::uint64_t first, std::size_t count) override {
    in_batches(first, count, pg::statement::cancel, [](std::uint64_t from, std::size_t n) {
      parameters::array ids{element_type::text, n};
      for (std::size_t i = 0; i != n; ++i) ids.add(id_of(from + i));
      parameters values;
      values.add(std::move(ids));
      return values;
    });
  }
  void schedule_due(std::uint64_t first, std::size_t count) override {
    schedule(first, count, durable::clock::now());
    find(first, count);
  }

  void start_and_finish() override {
    std::size_t next = 0;
    std::deque<bool> is_begin;  // of the transactions under way
    std::deque<std::vector<std::string>> begun;
    std::size_t begins = 0;
    while (next != due_.size() || !is_begin.empty()) {
      for (; next != due_.size() && begins != batches_in_flight / 2; ++next, ++begins) {
        send_begin(due_[next]);
        is_begin.push_back(true);
        begun.push_back(due_[next].ids);
      }
      const pg::result answered = starts_.take();
      const bool was_begin = is_begin.front();
      is_begin.pop_front();
      if (!was_begin) continue;
      --begins;
      send_finish(begun.front(), pg::rows{answered});
      begun.pop_front();
      is_begin.push_back(false);
    }
  }

 private:
  struct due_batch {
    std::int64_t session = 0;
    std::vector<std::string> ids;
    std::vector<std::int64_t> revs;
  };

  template <class Make>
  void in_batches(std::uint64_t first, std::size_t count, pg::statement what, const Make& make) {
    std::deque<std::size_t> sent;
    std::size_t next = 0;
    while (next != count || !sent.empty()) {
      while (next != count && sent.size() != batches_in_flight) {
        const std::size_t n = std::min(raw_batch, count - next);
        requests_.send(what, make(first + next, n));
        sent.push_back(n);
        next += n;
      }
      const pg::result answered = requests_.take();
      if (static_cast<std::size_t>(PQntuples(answered.get())) != sent.front()) fail("raw: an element was passed over");
      sent.pop_front();
    }
  }

  // A batch has tasks of one node.
  void find(std::uint64_t first, std::size_t count) {
    std::istringstream owners{
        starts_.run("select string_agg(coalesce(session, 0)::text, ' ' order by part) from parts")};
    const std::vector<std::int64_t> session_of{std::istream_iterator<std::int64_t>{owners}, {}};
    due_.clear();
    std::map<std::int64_t, due_batch> open;
    for (std::size_t next = 0; next < count; next += raw_batch) {
      const std::size_t n = std::min(raw_batch, count - next);
      parameters::array ids{element_type::text, n};
      for (std::size_t i = 0; i != n; ++i) ids.add(id_of(first + next + i));
      parameters values;
      values.add(std::move(ids));
      starts_.send(pg::statement::look, values);
      const pg::result found = starts_.take();
      const pg::rows row{found};
      for (int r = 0; r != row.size(); ++r) {
        const std::int64_t session = session_of[static_cast<std::size_t>(row.integer(r, 5))];
        due_batch& batch = open[session];
        batch.session = session;
        batch.ids.push_back(id_of(first + next + static_cast<std::size_t>(row.integer(r, 1) - 1)));
        batch.revs.push_back(row.integer(r, 3));
        if (batch.ids.size() == raw_batch) due_.push_back(std::exchange(batch, {}));
      }
    }
    for (auto& [session, batch] : open)
      if (!batch.ids.empty()) due_.push_back(std::move(batch));
  }
  void send_begin(const due_batch& batch) {
    parameters::array ids{element_type::text, batch.ids.size()}, revs{element_type::bigint, batch.ids.size()};
    for (const std::string& id : batch.ids) ids.add(id);
    for (const std::int64_t rev : batch.revs) revs.add(rev);
    parameters values;
    values.add(batch.session).add(std::move(ids)).add(std::move(revs));
    starts_.send(pg::statement::begin, values);
  }
  void send_finish(const std::vector<std::string>& begun, const pg::rows& answered) {
    const std::size_t n = begun.size();
    if (static_cast<std::size_t>(answered.size()) != n || answered.is_null(0, 1)) fail("raw: a task did not start");
    parameters::array ids{element_type::text, n}, tokens{element_type::bigint, n}, hows{element_type::smallint, n};
    parameters::array times{element_type::bigint, n}, backs{element_type::boolean, n}, errors{element_type::text, n};
    for (int r = 0; r != answered.size(); ++r) {
      ids.add(begun[static_cast<std::size_t>(answered.integer(r, 1) - 1)]);
      tokens.add(answered.integer(r, 2));
      hows.add_smallint(0);
      times.add(std::int64_t{0});
      backs.add_boolean(false);
      errors.add(std::string_view{});
    }
    parameters values;
    values.add(std::move(ids)).add(std::move(tokens)).add(std::move(hows));
    values.add(std::move(times)).add(std::move(backs)).add(std::move(errors));
    starts_.send(pg::statement::finish, values);
  }

  pipeline requests_;
  pipeline starts_;
  std::vector<due_batch> due_;
};

}  // namespace

std::unique_ptr<raw_store> make_raw_postgres(const std::string& conninfo, const durable::postgres_options& options) {
  return std::make_unique<raw_postgres>(conninfo, options);
}

}  // namespace tickwheel::bench
