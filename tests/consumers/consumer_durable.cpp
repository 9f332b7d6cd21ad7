// A program that has tickwheel-durable from elsewhere: a task survives the scheduler that took it.
#include <tickwheel/durable/durable.hpp>
#include <tickwheel/durable/memory.hpp>
#include <tickwheel/tickwheel.hpp>
#if __has_include(<tickwheel/durable/sqlite.hpp>)
#include <tickwheel/durable/sqlite.hpp>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

namespace durable = tickwheel::durable;

namespace {

// Only asks: it has no handler, and so starts nothing.
bool schedules(std::unique_ptr<durable::store> tasks) {
  tickwheel::event_loop loop;
  if (loop.open() != 0) return false;
  durable::scheduler producer{loop.timers(), std::move(tasks)};
  bool is_scheduled = false;
  if (producer.open([](int) noexcept {}) != 0) return false;
  // a time that has passed on each of the stores' clocks: it is due at once
  const auto due = durable::memory_database::first_day;
  const int error =
      producer.schedule({.id = "order-7", .due = due, .payload = "cancel"}, [&](durable::schedule_result r) noexcept {
        is_scheduled = r == durable::schedule_result::scheduled;
        producer.close();
      });
  if (error != 0) return false;
  loop.run();
  return is_scheduled;
}

bool starts(std::unique_ptr<durable::store> tasks) {
  tickwheel::event_loop loop;
  if (loop.open() != 0) return false;
  durable::scheduler orders{loop.timers(), std::move(tasks)};
  bool is_finished = false;
  orders.on_due([&](durable::execution run) noexcept {
    if (run.id() != "order-7" || run.payload() != "cancel" || run.attempt() != 1) return;
    run.done([&](durable::finish_result r) noexcept {
      is_finished = r == durable::finish_result::finished;
      orders.close();
    });
  });
  if (orders.open([](int) noexcept {}) != 0) return false;
  loop.run();
  std::ostringstream out;
  durable::write_prometheus(out, orders);
  return is_finished && out.str().find("tickwheel_durable_") != std::string::npos && orders.validate();
}

#if __has_include(<tickwheel/durable/sqlite.hpp>)
bool survives_in_a_file() {
  std::string folder = (std::filesystem::temp_directory_path() / "tickwheel-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return false;
  const std::string file = folder + "/orders.db";
  const bool survives = schedules(durable::sqlite_store(file)) && starts(durable::sqlite_store(file));
  std::filesystem::remove_all(folder);
  return survives;
}
#else
bool survives_in_a_file() { return true; }
#endif

}  // namespace

int main() {
  const auto database = std::make_shared<durable::memory_database>();
  if (!schedules(durable::memory_store(database)) || !starts(durable::memory_store(database))) return 1;
  if (!survives_in_a_file()) return 2;
  std::puts("durable timers: ok");
}
