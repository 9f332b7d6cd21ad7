// The reports of C services: names of callbacks, in a plugin and beside those of C++, and numbers.
#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/named_handler.hpp>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <uv.h>

#include <cstdio>
#include <locale>
#include <string>

namespace {

std::string name_of(tw_timer_cb callback) {
  char name[256];
  return tw_handler_name(reinterpret_cast<tw_handler_t>(callback), name, sizeof name);
}

void on_timeout(tw_timer_t*) {}
TW_NAME_TIMER_CB(on_timeout);

TEST(name_of_c_callback, is_that_of_the_function) { EXPECT_EQ(name_of(on_timeout), "on_timeout"); }

TEST(name_of_c_callback, is_known_in_cpp) {
  char name[256];
  const auto any_function = reinterpret_cast<void (*)()>(on_timeout);
  tickwheel::write_name(reinterpret_cast<tickwheel::wheel_entry::callback>(any_function), name, sizeof name);
  EXPECT_STREQ(name, "on_timeout");
}

TEST(name_of_c_callback, unloaded_plugin_takes_it_along) {
  void* const module = dlopen(TICKWHEEL_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto callback = reinterpret_cast<tw_timer_cb (*)()>(dlsym(module, "plugin_callback"))();
  EXPECT_EQ(name_of(callback), "on_plugin_timeout");
  ASSERT_EQ(dlclose(module), 0);
  ASSERT_EQ(dlopen(TICKWHEEL_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD), nullptr) << "the plugin is still loaded";
  EXPECT_EQ(name_of(callback).substr(0, 2), "0x");
}

/// Writes 131072 as 131.072, and 0.00 as 0,00.
struct grouped_digits final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(text_of_c_service, does_not_follow_the_global_locale) {
  const std::locale before = std::locale::global({std::locale::classic(), new grouped_digits});
  uv_loop_t loop;
  tw_service_t service;
  ASSERT_EQ(uv_loop_init(&loop), 0);
  ASSERT_EQ(tw_service_init(&loop, &service), 0);
  char text[256];
  EXPECT_EQ(std::string{tw_service_why_text(&service, text, sizeof text)}.substr(0, 12), "0.00 ms late");
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(tw_service_dump(&service, file), 0);
  std::rewind(file);
  EXPECT_NE(std::string(text, std::fread(text, 1, sizeof text, file)).find("tick 131072 ns"), std::string::npos);
  std::fclose(file);
  tw_service_close(&service, nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
  std::locale::global(before);
}

}  // namespace
