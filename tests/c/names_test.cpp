// Names of C callbacks, in a plugin and beside those of C++.
#include <tickwheel/tickwheel.h>
#include <tickwheel/uv/named_handler.hpp>

#include <gtest/gtest.h>

#include <dlfcn.h>

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

}  // namespace
