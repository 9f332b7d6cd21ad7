// Classes of characters, in any locale.
#pragma once

namespace timer_server {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace timer_server
