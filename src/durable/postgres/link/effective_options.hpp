// The options of a connection, with those that libpq adds to a conninfo.
#pragma once

#include <libpq-fe.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace tickwheel::durable::postgres {

/// The options of a conninfo as libpq takes them: a word of the conninfo counts more than its service, the service more than the
/// environment, and the environment more than the built-in values. Connects nowhere, and resolves no name. It reads the service file.
///
/// There are none if libpq cannot read the conninfo or its service.
class effective_options {
 public:
  // Only a connection tells its options. This one fails before it looks up a host: no server has this attribute of a session. The other words keep
  // libpq from asking the system who the user is, and from reading passwords.
  explicit effective_options(const std::string& conninfo) {
    constexpr std::array keywords{"dbname", "user", "password", "target_session_attrs",
                                  static_cast<const char*>(nullptr)};
    const std::array<const char*, keywords.size()> values{conninfo.c_str(), "-", "-", "-", nullptr};
    const std::unique_ptr<PGconn, void (*)(PGconn*)> failed{PQconnectStartParams(keywords.data(), values.data(), 1),
                                                            &PQfinish};
    options_.reset(PQconninfo(failed.get()));
  }

  /// Returns the value of an option. Empty: it has none.
  std::string value(std::string_view keyword) const {
    std::string found;
    for_each([&](std::string_view k, std::string_view v) {
      if (k == keyword) found = v;
    });
    return found;
  }
  /// Calls `f(keyword, value)` for each option that has a value.
  template <class F>
  void for_each(F f) const {
    for (const PQconninfoOption* o = options_.get(); o != nullptr && o->keyword != nullptr; ++o)
      if (o->val != nullptr) f(std::string_view{o->keyword}, std::string_view{o->val});
  }

 private:
  struct free_options {
    void operator()(PQconninfoOption* o) const noexcept { PQconninfoFree(o); }
  };
  std::unique_ptr<PQconninfoOption, free_options> options_;
};

}  // namespace tickwheel::durable::postgres
