// An object that asks for work that answers an int, and notes the answers.
#pragma once

#include <tickwheel/uv/offload.hpp>

#include "../../support/prelude.hpp"

class offloader {
 public:
  offloader(tickwheel::timer_service& timers, tickwheel::offload_pool& pool) : call{timers, pool, *this} {}

  int answers = 0;
  int error = 1;
  std::optional<int> result;
  std::thread::id on;
  std::function<void()> then;

 private:
  void on_done(int failed, int* value) noexcept {
    ++answers;
    error = failed;
    result = value != nullptr ? std::optional{*value} : std::nullopt;
    on = std::this_thread::get_id();
    const auto what = then;  // a copy, because the call may destroy this
    if (what) what();
  }

 public:
  tickwheel::offload<&offloader::on_done> call;
};
