// Nodes that encrypt their connections. The server's certificate is for localhost, and is its own authority.
#include "joining.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

using namespace conformance;

namespace {

/// A server that encrypts TCP connections, and accepts no others.
class tls_server {
 public:
  static constexpr const char* openssl = "/usr/bin/openssl";

  /// An address of this machine that no other server has: the port is the default one.
  static std::string free_address() {
    const auto number = static_cast<unsigned>(::getpid());
    return "127." + std::to_string(1 + number % 250) + "." + std::to_string(number / 250 % 250) + ".1";
  }

  tls_server() : address_{free_address()}, rules_{"/tmp/tickwheel_tls_" + std::to_string(::getpid())} {
    std::ofstream{rules_} << "local all all trust\nhostssl all all 127.0.0.0/8 trust\n";
    ::chmod(rules_.c_str(), 0644);
    server_.emplace(std::vector<std::string>{"listen_addresses = '" + address_ + "'", "hba_file = '" + rules_ + "'"});
    const std::string key = server_->folder() + "/server.key";
    const pid_t maker = server_->spawn({openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj",
                                        "/CN=localhost", "-days", "2", "-keyout", key, "-out", certificate()},
                                       server_->folder() + "/openssl.log");
    ::waitpid(maker, nullptr, 0);
    const psql admin{server_->conninfo()};
    admin.run("alter system set ssl_key_file = '" + key + "'");
    admin.run("alter system set ssl_cert_file = '" + certificate() + "'");
    admin.run("alter system set ssl = on");
    admin.run("select pg_reload_conf()");
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (PQping(conninfo("localhost", "require").c_str()) != PQPING_OK &&
           std::chrono::steady_clock::now() < deadline) {
    }
  }
  ~tls_server() { ::unlink(rules_.c_str()); }
  tls_server(const tls_server&) = delete;
  tls_server& operator=(const tls_server&) = delete;

  test_server& server() { return *server_; }
  std::string conninfo(const std::string& host, const std::string& mode) const {
    return "host=" + host + " hostaddr=" + address_ + " user=tester dbname=postgres sslmode=" + mode +
           " sslrootcert=" + certificate();
  }

 private:
  std::string certificate() const { return server_->folder() + "/server.crt"; }

  const std::string address_;
  const std::string rules_;
  std::optional<test_server> server_;
};

class postgres_tls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::access(tls_server::openssl, X_OK) == 0) encrypted_.emplace();
  }
  static void TearDownTestSuite() { encrypted_.reset(); }
  void SetUp() override {
    if (!encrypted_) GTEST_SKIP() << "install the package openssl";
    on.emplace(encrypted_->server());
  }

  static std::optional<tls_server> encrypted_;
  std::optional<postgres_fixture> on;
};
std::optional<tls_server> postgres_tls::encrypted_;

TEST_F(postgres_tls, node_checks_the_certificate_and_the_name) {
  EXPECT_EQ(try_to_join(*on, encrypted_->conninfo("localhost", "verify-full")).error, 0);
  const join_answer other = try_to_join(*on, encrypted_->conninfo("other.example", "verify-full"));
  EXPECT_EQ(other.status, durable::store_status::unavailable);
  EXPECT_NE(other.problem.find("does not match host name \"other.example\""), std::string::npos) << other.problem;
}

TEST_F(postgres_tls, node_without_encryption_is_refused) {
  expect_refused(try_to_join(*on, encrypted_->conninfo("localhost", "disable")), UV_EACCES, "no encryption");
}

TEST_F(postgres_tls, large_answers_arrive_whole) {
  on->conninfo = encrypted_->conninfo("localhost", "verify-full");
  node n{*on};
  n.start();
  const std::string large(60'000, 'x');
  std::vector<durable::begin_call::item> items;
  for (int i = 0; i != 40; ++i) {
    const std::string id = "t" + std::to_string(i);
    items.push_back({id, n.put({.id = id, .due = n.now(), .payload = large}).rev});
  }
  asked<durable::begin_call> c;
  c.session = n.session();
  c.items = std::move(items);
  n.run(c);
  ASSERT_EQ(c.starts.size(), 40U);
  for (const auto& s : c.starts) EXPECT_EQ(s.payload, large);
  EXPECT_EQ(on->other().run("select count(*) from pg_stat_ssl s join links l on l.pid = s.pid where s.ssl"), "4");
  n.close();
}

}  // namespace
