// A server whose disk is full rejects writes, and goes on when there is room again.
#include "joining.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

using namespace conformance;
using durable::store_status;
using durable::task_state;

namespace {

class full_disk : public testing::Test {
 protected:
  /// Returns the path of a copy of the library. The user of the server may not be able to read the folder of the build.
  static std::string copied_library(const std::string& to) {
    std::filesystem::copy_file(FULL_DISK_LIBRARY, to, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(to, std::filesystem::perms{0755});
    return to;
  }
  void TearDown() override { std::filesystem::remove(library); }

  /// A payload that cannot be compressed, so that a table must grow for it.
  static std::string large_payload() {
    std::mt19937 random{1};
    std::string bytes(60'000, '\0');
    for (char& b : bytes) b = static_cast<char>(random());
    return bytes;
  }
  store_status put(node& own, const std::string& id, std::string payload) {
    asked<durable::put_call> c;
    c.items.push_back(
        {{.id = id, .due = durable::clock::time_point{1s}, .payload = std::move(payload)}, durable::on_conflict::keep});
    call_runner{on}.run(own.store(), c);
    return c.status;
  }

  const std::string sign = "/tmp/tickwheel_full_disk_" + std::to_string(::getpid());
  const std::string library = copied_library(sign + ".so");
  test_server server{std::vector<std::string>{}, {"LD_PRELOAD=" + library, "FULL_DISK=" + sign}};
  postgres_fixture on{server};
};

TEST_F(full_disk, writes_are_unavailable_until_there_is_room) {
  node own{on};
  own.start();
  ASSERT_EQ(put(own, "before", "data"), store_status::ok);
  std::ofstream{sign} << "full";
  EXPECT_EQ(put(own, "large", large_payload()), store_status::unavailable);
  EXPECT_EQ(put(own, "large", large_payload()), store_status::unavailable);
  ASSERT_EQ(on.log.size(), 1U) << "the same line is written once";
  EXPECT_NE(on.log[0].find("postgres_store: a put failed: could not extend file"), std::string::npos) << on.log[0];
  EXPECT_NE(on.log[0].find("No space left on device; Check free disk space."), std::string::npos) << on.log[0];
  EXPECT_EQ(own.get("before")->state, task_state::pending) << "reads go on";
  EXPECT_FALSE(own.get("large"));
  std::filesystem::remove(sign);
  EXPECT_EQ(put(own, "large", large_payload()), store_status::ok);
  EXPECT_EQ(own.begin("large").payload, large_payload());
  EXPECT_EQ(on.log.size(), 1U) << "the connection was never lost";
  own.close();
}

}  // namespace
