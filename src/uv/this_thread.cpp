#include <tickwheel/uv/detail/this_thread.hpp>

#if !(defined(__GNUC__) && defined(__linux__) && defined(__x86_64__) && defined(__LP64__))
namespace tickwheel::detail {

const void* this_thread() noexcept {
  // Those of two threads do not overlap, so their addresses are at least 64 bytes apart.
  static thread_local char here[64];
  return here;
}

}  // namespace tickwheel::detail
#endif
