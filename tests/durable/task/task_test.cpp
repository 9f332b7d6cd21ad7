#include <tickwheel/durable/results.hpp>
#include <tickwheel/durable/task.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>

using namespace std::chrono_literals;
namespace durable = tickwheel::durable;

namespace {

constexpr std::size_t max_payload = 8;

durable::task valid() { return {.id = "order-7", .due = durable::clock::time_point{1h}, .payload = "12345678"}; }

TEST(task_id, may_be_any_utf8_up_to_255_bytes) {
  for (const std::string& id :
       {std::string{"a"}, std::string(255, 'x'), std::string{"\xc3\xa9"}, std::string{"\xe2\x82\xac"},
        std::string{"\xf0\x9f\x98\x80"}, std::string{"a b"}, std::string{"\xc2\xa0"}, std::string{"~"}})
    EXPECT_TRUE(durable::is_valid_id(id)) << id;
}

TEST(task_id, is_neither_empty_nor_longer_than_255_bytes) {
  EXPECT_FALSE(durable::is_valid_id(""));
  EXPECT_FALSE(durable::is_valid_id(std::string(256, 'x')));
}

TEST(task_id, has_no_control_character) {
  for (const char c : {'\0', '\x01', '\n', '\x1f', '\x7f'})
    EXPECT_FALSE(durable::is_valid_id(std::string(1, c))) << int{c};
  EXPECT_FALSE(durable::is_valid_id("\xc2\x80"));  // U+0080
  EXPECT_FALSE(durable::is_valid_id("\xc2\x9f"));  // U+009F
  EXPECT_FALSE(durable::is_valid_id(std::string("a\0b", 3)));
}

TEST(task_id, is_rejected_if_it_is_no_utf8) {
  for (const char* id : {"\x80", "\xff", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
                         "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3", "ok\xc3(", "\xf0\x9f\x98"})
    EXPECT_FALSE(durable::is_valid_id(id)) << id;
}

TEST(task, is_valid_at_the_edges_of_its_range) {
  durable::task t = valid();
  EXPECT_EQ(durable::problem(t, max_payload), nullptr);
  t.due = durable::clock::time_point{1ns};
  EXPECT_EQ(durable::problem(t, max_payload), nullptr);
  t.due = std::chrono::sys_days{std::chrono::year{2200} / 1 / 1} - 1ns;
  EXPECT_EQ(durable::problem(t, max_payload), nullptr);
  t.period = 1ms;
  EXPECT_EQ(durable::problem(t, max_payload), nullptr);
}

TEST(task, problem_names_the_first_invalid_field) {
  const auto message = [](auto change) {
    durable::task t = valid();
    change(t);
    return std::string{durable::problem(t, max_payload)};
  };
  using durable::task;
  EXPECT_EQ(message([](task& t) { t.id.clear(); }), "task::id is empty");
  EXPECT_EQ(message([](task& t) { t.id.assign(256, 'x'); }), "task::id is longer than 255 bytes");
  EXPECT_EQ(message([](task& t) { t.id = "\n"; }), "task::id is not UTF-8, or has a control character");
  EXPECT_EQ(message([](task& t) { t.due = {}; }), "task::due is not after 1970-01-01");
  EXPECT_EQ(message([](task& t) { t.due = durable::clock::time_point::min(); }), "task::due is not after 1970-01-01");
  EXPECT_EQ(message([](task& t) { t.due = std::chrono::sys_days{std::chrono::year{2200} / 1 / 1}; }),
            "task::due is not before 2200-01-01");
  EXPECT_EQ(message([](task& t) { t.payload += 'x'; }), "task::payload is longer than scheduler_options::max_payload");
  EXPECT_EQ(message([](task& t) { t.period = -1ns; }), "task::period is negative");
  EXPECT_EQ(message([](task& t) { t.period = 1ms - 1ns; }), "task::period is shorter than 1 ms");
}

TEST(task, results_and_states_have_names) {
  EXPECT_STREQ(to_string(durable::schedule_result::scheduled), "scheduled");
  EXPECT_STREQ(to_string(durable::schedule_result::unknown), "unknown");
  EXPECT_STREQ(to_string(durable::cancel_result::not_found), "not_found");
  EXPECT_STREQ(to_string(durable::finish_result::stale), "stale");
  EXPECT_STREQ(to_string(durable::revive_result::not_dead), "not_dead");
  EXPECT_STREQ(to_string(durable::read_result::unavailable), "unavailable");
  EXPECT_STREQ(to_string(durable::task_state::cancelled), "cancelled");
  EXPECT_STREQ(to_string(static_cast<durable::task_state>(77)), "invalid");
}

}  // namespace
