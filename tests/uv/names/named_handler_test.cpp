// Names of handlers: of members, callables, functions and plugins.
#include "../support/child.hpp"
#include "../support/probe.hpp"

#include <tickwheel/uv/after.hpp>
#include <tickwheel/uv/awaitable_tcp.hpp>
#include <tickwheel/uv/named_handler.hpp>
#include <tickwheel/uv/offload.hpp>
#include <tickwheel/uv/remote.hpp>

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <deque>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace server {

template <class Key, class Value>
struct session {
  void on_idle() noexcept {}
  void on_request() const noexcept {}
};

}  // namespace server

namespace {

using callback = tickwheel::wheel_entry::callback;

std::string name_of(callback handler) {
  char name[256];
  tickwheel::write_name(handler, name, sizeof name);
  return name;
}

void plain(tickwheel::wheel_entry&) noexcept {}

struct hidden {
  void on_idle() noexcept {}
};

using named_handler = manual_test;

TEST(named_handler_of, member_is_its_name) {
  EXPECT_EQ(name_of(tickwheel::member_timer<&server::session<int, char>::on_idle>::handler()),
            "server::session<int, char>::on_idle");
  EXPECT_EQ(name_of(tickwheel::interval_timer<&server::session<int, char>::on_request>::handler()),
            "server::session<int, char>::on_request");
  EXPECT_NE(name_of(tickwheel::member_timer<&hidden::on_idle>::handler()).find("::hidden::on_idle"), std::string::npos);
}

TEST(named_handler_of, callable_is_its_type) {
  struct functor {
    void operator()() noexcept {}
  };
  EXPECT_NE(name_of(tickwheel::callback_timer<functor>::handler()).find("functor"), std::string::npos);
  const auto lambda = []() noexcept {};
  EXPECT_NE(name_of(tickwheel::callback_timer<decltype(lambda)>::handler()).find("lambda"), std::string::npos);
}

struct worker {
  void on_result(int) noexcept {}
};

TEST(named_handler_of, offload_is_its_member) {
  EXPECT_NE(name_of(tickwheel::offload<&worker::on_result>::handler()).find("worker::on_result"), std::string::npos);
}

TEST(named_handler_of, limit_of_socket_is_a_name) {
  EXPECT_EQ(name_of(tickwheel::tcp_socket::handler()), "tickwheel::tcp_socket");
}

TEST(named_handler_of, function_is_its_place_in_its_module) {
  const std::string place = name_of(&plain);
  const std::size_t plus = place.find("+0x");
  ASSERT_NE(plus, std::string::npos) << place;
  Dl_info found{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&plain), &found), 0);
  EXPECT_EQ(std::stoull(place.substr(plus + 1), nullptr, 16),
            reinterpret_cast<std::uintptr_t>(&plain) - reinterpret_cast<std::uintptr_t>(found.dli_fbase));
  EXPECT_EQ(place.find('/'), std::string::npos);
}

TEST(named_handler_of, function_is_given_name_while_that_lives) {
  {
    const tickwheel::named_handler first{&plain, "first"};
    EXPECT_EQ(name_of(&plain), "first");
    {
      const tickwheel::named_handler second{&plain, "second"};
      const tickwheel::named_handler empty{&plain, ""};
      EXPECT_EQ(name_of(&plain), "second");
    }
    EXPECT_EQ(name_of(&plain), "first");
  }
  EXPECT_NE(name_of(&plain).find("+0x"), std::string::npos);
}

TEST(named_handler_of, long_name_is_cut) {
  const tickwheel::named_handler named{&plain, "on_request"};
  char name[4] = {'x', 'x', 'x', 'x'};
  tickwheel::write_name(&plain, name, sizeof name);
  EXPECT_STREQ(name, "on_");
  tickwheel::write_name(&plain, name, 1);
  EXPECT_STREQ(name, "");
}

TEST(named_handler_of, any_is_known_in_child_of_fork) {
  const tickwheel::named_handler named{&plain, "on_request"};
  // Many names before it make the search long, so that the other thread is in it when this one forks.
  std::deque<tickwheel::named_handler> others;
  for (int i = 0; i < 5000; ++i) others.emplace_back(tickwheel::member_timer<&hidden::on_idle>::handler(), "on_idle");
  std::atomic<bool> ends = false;
  std::thread asks{[&] {
    while (!ends) (void)name_of(&plain);
  }};
  for (int i = 0; i < 20; ++i) {
    const child_process child{[] {
      alarm(5);
      EXPECT_EQ(name_of(&plain), "on_request");
    }};
    EXPECT_EQ(child.exit_code(), 0);
    if (HasFailure()) break;
  }
  ends = true;
  asks.join();
}

TEST(named_handler_of, byte_that_is_no_utf8_becomes_question_mark) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"on_caf\xc3\xa9", "on_caf\xc3\xa9"},
      {"\xe2\x82\xac\xf0\x9f\x98\x80", "\xe2\x82\xac\xf0\x9f\x98\x80"},
      {"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf", "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf"},
      {"\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
       "\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
      {"a\xffz", "a?z"},
      {"\x80z", "?z"},                         // nothing before it
      {"a\xc3", "a?"},                         // the end is missing
      {"\xe2\x82z", "??z"},                    // the same
      {"\xf0\x9f\x98", "???"},                 // the same
      {"\xc3\xc3\xa9", "?\xc3\xa9"},           // the next one is whole
      {"\xc0\xaf\xc1\xbf", "????"},            // overlong
      {"\xe0\x9f\xbf", "???"},                 // overlong
      {"\xf0\x8f\xbf\xbf", "????"},            // overlong
      {"\xed\xa0\x80\xed\xbf\xbf", "??????"},  // surrogates
      {"\xf4\x90\x80\x80", "????"},            // beyond U+10FFFF
      {"\xf5\x80\x80\x80", "????"},            // the same
      {std::string_view{"a\0b", 3}, "a?b"},
  };
  for (const auto& [given, written] : names) {
    const tickwheel::named_handler named{&plain, given};
    EXPECT_EQ(name_of(&plain), written);
  }
}

TEST(named_handler_of, long_name_is_cut_between_code_points) {
  const tickwheel::named_handler named{&plain, "a\xe2\x82\xac\xc3\xa9z"};
  constexpr std::string_view written[] = {"",
                                          "a",
                                          "a",
                                          "a",
                                          "a\xe2\x82\xac",
                                          "a\xe2\x82\xac",
                                          "a\xe2\x82\xac\xc3\xa9",
                                          "a\xe2\x82\xac\xc3\xa9z",
                                          "a\xe2\x82\xac\xc3\xa9z"};
  for (std::size_t room = 0; room < std::size(written); ++room) {
    char name[10] = "xxxxxxxxx";
    tickwheel::write_name(&plain, name, room + 1);
    EXPECT_EQ(std::string_view{name}, written[room]) << room;
  }
}

TEST(named_handler_of, unknown_address_is_written) {
  int on_the_heap = 0;
  EXPECT_EQ(name_of(reinterpret_cast<callback>(&on_the_heap)).substr(0, 2), "0x");
}

TEST(named_handler_of, names_come_and_go_while_others_ask) {
  const tickwheel::named_handler stays{&plain, "stays"};
  std::thread other{[] {
    for (int i = 0; i < 1000; ++i)
      const tickwheel::named_handler comes{[](tickwheel::wheel_entry&) noexcept {}, "comes"};
  }};
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(name_of(&plain), "stays");
  other.join();
}

TEST_F(named_handler, dump_and_report_have_names) {
  p.then = [&] { service.time.block(5ms); };
  p.arm(1ms);
  std::ostringstream report, dump;
  ASSERT_EQ(timers.after(2ms, [&]() noexcept { report << timers.why(); }), 0);
  timers.dump(dump);
  EXPECT_NE(dump.str().find("armed for the handler probe::on_timeout: 1 in up to 1 s"), std::string::npos)
      << dump.str();
  EXPECT_NE(dump.str().find("lambda"), std::string::npos) << dump.str();
  service.advance(1s);
  EXPECT_NE(report.str().find("(the handler probe::on_timeout)"), std::string::npos) << report.str();
}

struct posted_work {
  tickwheel::manual_driver* time;
  std::array<char, 100> large;
  void operator()() const noexcept { time->block(5ms); }
};

TEST_F(named_handler, posted_callable_is_its_type) {
  static std::string slow;
  timers.on_slow_handler([](void*, const tickwheel::slow_handler& one) noexcept { slow += name_of(one.handler); });
  const tickwheel::remote_handle remote = timers.remote();
  ASSERT_EQ(remote.post(posted_work{&service.time, {}}), 0);
  ASSERT_EQ(remote.post(2s, [&]() noexcept { service.time.block(5ms); }), 0);
  service.advance(1s);
  EXPECT_NE(slow.find("posted_work"), std::string::npos) << slow;
  std::ostringstream dump;
  timers.dump(dump);
  EXPECT_NE(dump.str().find("lambda"), std::string::npos) << dump.str();
  service.advance(2s);
  EXPECT_NE(slow.find("lambda"), std::string::npos) << slow;
}

TEST_F(named_handler, names_of_user_go_before_ours) {
  p.arm(1ms);
  std::ostringstream dump;
  timers.dump(dump, [](callback) noexcept -> const char* { return "mine"; });
  EXPECT_NE(dump.str().find("the handler mine"), std::string::npos);
}

// The service keeps handlers of the plugin: the last one, slow ones, and what held up others.
TEST_F(named_handler, unloaded_plugin_takes_its_names_along) {
  void* const module = dlopen(TICKWHEEL_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto begin =
      reinterpret_cast<int (*)(tickwheel::timer_service&, void (*)(void*), void*)>(dlsym(module, "plugin_begin"));
  const auto end = reinterpret_cast<void (*)()>(dlsym(module, "plugin_end"));
  ASSERT_EQ(begin(
                timers, [](void* time) { static_cast<tickwheel::manual_driver*>(time)->block(5ms); }, &service.time),
            0);
  std::ostringstream loaded, unloaded;
  timers.dump(loaded);
  EXPECT_NE(loaded.str().find("the handler plugin::session::on_idle"), std::string::npos) << loaded.str();

  p.then = [&] { loaded << timers.why(); };
  p.arm(2ms);
  service.advance(1s);
  EXPECT_NE(loaded.str().find("(the handler plugin::session::on_idle)"), std::string::npos) << loaded.str();

  const callback stale = timers.why().handler;
  end();
  ASSERT_EQ(dlclose(module), 0);
  ASSERT_EQ(dlopen(TICKWHEEL_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the plugin is still loaded";
  EXPECT_EQ(name_of(stale).substr(0, 2), "0x");
  unloaded << timers.why();
  timers.dump(unloaded);
  EXPECT_EQ(unloaded.str().find("plugin::"), std::string::npos) << unloaded.str();
  EXPECT_NE(unloaded.str().find("(the handler 0x"), std::string::npos) << unloaded.str();
}

}  // namespace
