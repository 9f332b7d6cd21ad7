/* A plugin with a named callback: names_test loads and unloads it. */
#include <tickwheel/tickwheel.h>

static void on_plugin_timeout(tw_timer_t* timer) { (void)timer; }

TW_NAME_TIMER_CB(on_plugin_timeout);

__attribute__((visibility("default"))) tw_timer_cb plugin_callback(void);
tw_timer_cb plugin_callback(void) { return on_plugin_timeout; }
