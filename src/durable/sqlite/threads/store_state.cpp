#include "store_state.hpp"

#include <exception>

namespace tickwheel::durable::sqlite {

void last_problem::set(const std::string& file, const failure& f) noexcept {
  try {
    std::string text = file + ": " + f.text();
    if (f.code() != 0) text += " (SQLite's code " + std::to_string(f.code());
    if (f.code() != 0) text += f.system() != 0 ? ", errno " + std::to_string(f.system()) + ")" : ")";
    set(std::move(text));
  } catch (const std::exception&) {
    return;
  }
}

void last_problem::set(std::string text) noexcept {
  const std::lock_guard lock{mutex_};
  text_ = std::move(text);
}

std::string last_problem::get() const {
  const std::lock_guard lock{mutex_};
  return text_;
}

}  // namespace tickwheel::durable::sqlite
