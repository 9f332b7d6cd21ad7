#include <tickwheel/uv/detail/this_thread.hpp>

#if !(defined(__GNUC__) && defined(__linux__) && defined(__x86_64__) && defined(__LP64__))
namespace tickwheel::detail {

const void* this_thread() noexcept {
  alignas(64) static thread_local char here;  // two are at least 64 bytes apart, as of any two threads
  return &here;
}

}  // namespace tickwheel::detail
#endif
