// The reports of a service to C: why a callback is late, slow callbacks, and names.
#include "service_block.hpp"
#include "timer.hpp"

#include <tickwheel/tickwheel.h>
#include <tickwheel/core/detail/check.hpp>
#include <tickwheel/uv/expiry_report.hpp>
#include <tickwheel/uv/named_handler.hpp>

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <locale>
#include <new>
#include <ostream>
#include <streambuf>

namespace tickwheel::c {

namespace {

tw_why_t to_c(const expiry_report& from) noexcept {
  tw_why_t to{};
  to.late_ns = to_ns(from.late);
  to.rounding_ns = to_ns(from.rounding);
  to.poll_ns = to_ns(from.poll);
  to.carried_ns = to_ns(from.carried);
  to.stall_ns = to_ns(from.stall);
  to.stalled_by = static_cast<std::uint64_t>(from.by);
  to.stalled_by_ns = to_ns(from.by_for);
  to.handler = to_c_handler(from.handler);
  return to;
}

static_assert(static_cast<int>(stalled_by::nobody) == TW_STALLED_BY_NOBODY);
static_assert(static_cast<int>(stalled_by::loop_callbacks) == TW_STALLED_BY_LOOP_CALLBACKS);
static_assert(static_cast<int>(stalled_by::handler) == TW_STALLED_BY_HANDLER);

// Takes as many characters of UTF-8 as there is room for. Requires: `size` is at least 1.
class text_buffer final : public std::streambuf {
 public:
  text_buffer(char* to, std::size_t size) noexcept { setp(to, to + size); }

  // A text that leaves no room for the zero is cut before the character of its last byte.
  void end() noexcept {
    char* end = pptr();
    if (end == epptr()) {
      do --end;
      while (end != pbase() && (static_cast<unsigned char>(*end) & 0xc0U) == 0x80);
    }
    *end = '\0';
  }
};

class file_buffer final : public std::streambuf {
 public:
  explicit file_buffer(std::FILE* to) noexcept : to_{to} {}

 private:
  int_type overflow(int_type c) override {
    return c == traits_type::eof() || std::fputc(c, to_) != EOF ? traits_type::not_eof(c) : traits_type::eof();
  }
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    return static_cast<std::streamsize>(std::fwrite(from, 1, static_cast<std::size_t>(count), to_));
  }

  std::FILE* to_;
};

int dump(const timer_service& timers, std::FILE* to) noexcept {
  file_buffer buffer{to};
  std::ostream out{&buffer};
  out.imbue(std::locale::classic());
#if defined(__cpp_exceptions)
  try {
    timers.dump(out);
  } catch (const std::bad_alloc&) {
    return UV_ENOMEM;
  }
#else
  timers.dump(out);
#endif
  // a file may keep what it takes, and notice only later that it cannot be written
  return out && std::fflush(to) == 0 ? 0 : UV_EIO;
}

void name(tw_name_t* to, wheel_entry::callback handler, const char* text) noexcept {
  static_assert(sizeof(named_handler) <= sizeof(tw_name_t), "tickwheel.h sets aside too little");
  static_assert(alignof(named_handler) <= alignof(tw_name_t), "tickwheel.h sets aside what is not aligned");
  detail::require(to != nullptr, "a tw_name_t was null");
  detail::require(handler != nullptr, "a callback that is to be named was null");
  ::new (static_cast<void*>(to)) named_handler{handler, text != nullptr ? text : ""};
}

}  // namespace

}  // namespace tickwheel::c

using tickwheel::c::service_block;

int tw_service_why(const tw_service_t* handle, tw_why_t* why, size_t size) {
  if (handle == nullptr || why == nullptr) return UV_EINVAL;
  service_block* const s = service_block::find(*handle);
  if (s == nullptr) return UV_ECANCELED;
  const tw_why_t known = tickwheel::c::to_c(s->timers().why());
  std::memset(why, 0, size);
  std::memcpy(why, &known, std::min(size, sizeof known));
  return 0;
}

char* tw_service_why_text(const tw_service_t* handle, char* text, size_t size) {
  service_block& s = service_block::of(handle);
  if (size == 0) return text;
  tickwheel::detail::require(text != nullptr, "tw_service_why_text: the text was null");
  tickwheel::c::text_buffer buffer{text, size};
  std::ostream out{&buffer};
  out.imbue(std::locale::classic());
  describe(out, s.timers().why());
  buffer.end();
  return text;
}

void tw_service_on_slow_handler(tw_service_t* handle, tw_slow_handler_cb cb) {
  service_block& s = service_block::of(handle);
  s.check_thread();
  s.on_slow_handler(cb);
}

int tw_service_dump(const tw_service_t* handle, FILE* out) {
  if (handle == nullptr || out == nullptr) return UV_EINVAL;
  service_block* const s = service_block::find(*handle);
  return s == nullptr ? UV_ECANCELED : tickwheel::c::dump(s->timers(), out);
}

void tw_name_timer_cb(tw_name_t* name, tw_timer_cb cb, const char* text) {
  tickwheel::c::name(name, tickwheel::detail::id_of(cb), text);
}
void tw_name_remote_cb(tw_name_t* name, tw_remote_cb cb, const char* text) {
  tickwheel::c::name(name, tickwheel::detail::id_of(cb), text);
}

void tw_name_release(tw_name_t* name) {
  if (name == nullptr || name->private_[0] == nullptr) return;
  std::launder(reinterpret_cast<tickwheel::named_handler*>(name))->~named_handler();
  *name = {};
}

char* tw_handler_name(tw_handler_t handler, char* text, size_t size) {
  if (size == 0) return text;
  tickwheel::detail::require(text != nullptr, "tw_handler_name: the text was null");
  tickwheel::write_name(tickwheel::c::from_c_handler(handler), text, size);
  return text;
}
