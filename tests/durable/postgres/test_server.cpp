#include "test_server.hpp"

#include <libpq-fe.h>

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

namespace conformance {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 2min;  // for a server on a machine that is busy
constexpr uid_t nobody = 65'534;
constexpr gid_t nogroup = 65'534;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "test_server: %s\n", what.c_str());
  std::exit(1);
}

// Empty if it cannot be read. A process may end after its file was opened: an iterator over the stream would then throw.
std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

// 0: there is no such process
pid_t parent_of(pid_t process) {
  const std::string text = text_of("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  return static_cast<pid_t>(std::atol(text.c_str() + name_end + 4));
}

// Makes a folder that the server's user owns.
std::string new_folder(std::string name) {
  name += "/tickwheel_postgres_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) fail("cannot make " + name);
  if (::geteuid() == 0 && ::chown(name.c_str(), nobody, nogroup) != 0) fail("cannot give " + name + " to nobody");
  return name;
}

}  // namespace

std::optional<std::string> test_server::find_programs() {
  std::vector<std::string> folders;
  if (const char* const given = std::getenv("TICKWHEEL_TEST_POSTGRES")) folders.emplace_back(given);
  for (int version = 30; version >= 14; --version)
    folders.push_back("/usr/lib/postgresql/" + std::to_string(version) + "/bin");
  folders.insert(folders.end(), {"/usr/local/bin", "/usr/bin"});
  for (const std::string& folder : folders)
    if (::access((folder + "/initdb").c_str(), X_OK) == 0 && ::access((folder + "/postgres").c_str(), X_OK) == 0)
      return folder;
  return std::nullopt;
}

test_server::test_server(const std::vector<std::string>& settings, std::vector<std::string> environment,
                         const std::string& data_parent)
    : environment_{std::move(environment)} {
  // initdb takes longer than a copy of what it has made
  static const test_server pristine{new_data{}};
  make_folder(data_parent);
  if (run({"/bin/cp", "-R", pristine.data_, data_}, folder_ + "/cp.log") != 0)
    fail("cannot copy the data folder:\n" + text_of(folder_ + "/cp.log"));
  std::ofstream{data_ + "/postgresql.conf", std::ios::app}
      << "listen_addresses = ''\nshared_buffers = 16MB\nmax_connections = 40\nautovacuum_naptime = 5s\n"
         "max_wal_size = 256MB\nlog_line_prefix = '%m [%p] '\n";
  // everybody may connect, and one role needs a password
  std::ofstream{data_ + "/pg_hba.conf"}
      << "local all secret scram-sha-256\nlocal all all trust\nlocal replication all trust\n";
  write_settings(settings);
  start();
}

test_server::test_server(const test_server& primary, const std::vector<std::string>& settings) {
  make_folder();
  const std::string output = folder_ + "/basebackup.log";
  if (run({programs_ + "/pg_basebackup", "-h", primary.folder_, "-U", "tester", "-D", data_, "-R", "-c", "fast", "-X",
           "stream", "-N"},
          output) != 0)
    fail("pg_basebackup failed:\n" + text_of(output));
  write_settings(settings);
  start();
  if (!primary.waits_for("exists (select from pg_stat_replication where state = 'streaming')"))
    fail("the standby does not stream:\n" + log());
}

void test_server::write_settings(const std::vector<std::string>& settings) const {
  std::ofstream config{data_ + "/postgresql.conf", std::ios::app};
  config << "unix_socket_directories = '" << folder_ << "'\n";
  for (const std::string& line : settings) config << line << '\n';
}

void test_server::make_folder(const std::string& data_parent) {
  const auto programs = find_programs();
  if (!programs) fail("PostgreSQL's programs are missing: install the package postgresql");
  programs_ = *programs;
  folder_ = new_folder("/tmp");  // the path of a Unix socket is short
  data_ = (data_parent.empty() ? folder_ : new_folder(fs::absolute(data_parent))) + "/data";
}

test_server::test_server(new_data) {
  make_folder();
  const std::string output = folder_ + "/initdb.log";
  if (run({programs_ + "/initdb", "-D", data_, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"},
          output) != 0)
    fail("initdb failed:\n" + text_of(output));
}

test_server::~test_server() {
  kill();
  std::error_code ignored;
  fs::remove_all(data_, ignored);
  fs::remove(fs::path{data_}.parent_path(), ignored);  // if nothing else is in it
  fs::remove_all(folder_, ignored);
}

pid_t test_server::spawn(const std::vector<std::string>& command, const std::string& output) const {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot fork");
  if (child != 0) return child;
  // the server dies with this program, also if that crashes
  const bool is_root = ::geteuid() == 0;
  if (is_root && (::setgroups(0, nullptr) != 0 || ::setgid(nogroup) != 0 || ::setuid(nobody) != 0)) ::_exit(126);
  if (::prctl(PR_SET_PDEATHSIG, SIGQUIT) != 0 || ::getppid() != parent) ::_exit(126);
  const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int none = ::open("/dev/null", O_RDONLY);
  ::dup2(none, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::close_range(3, ~0U, 0);
  ::chdir("/");
  ::setenv("LC_ALL", "C", 1);
  for (const std::string& variable : environment_) ::putenv(const_cast<char*>(variable.c_str()));
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

int test_server::run(const std::vector<std::string>& command, const std::string& output) const {
  const pid_t child = spawn(command, output);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void test_server::start() {
  server_ = spawn({programs_ + "/postgres", "-D", data_}, folder_ + "/server.log");
  wait_until_ready();
}

bool test_server::accepts_connections() const { return PQping(conninfo().c_str()) == PQPING_OK; }

void test_server::wait_until_ready() const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!accepts_connections()) {
    if (std::chrono::steady_clock::now() > deadline) fail("the server does not start:\n" + log());
    std::this_thread::sleep_for(10ms);
  }
}

// Asks the server until the condition holds. Returns false if it does not within two minutes.
bool test_server::waits_for(const std::string& condition) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool holds = false;
  while (!holds && std::chrono::steady_clock::now() < deadline) {
    PGconn* const connection = PQconnectdb(conninfo().c_str());
    PGresult* const r = PQexec(connection, ("select " + condition).c_str());
    holds = PQntuples(r) == 1 && std::string_view{PQgetvalue(r, 0, 0)} == "t";
    PQclear(r);
    PQfinish(connection);
    if (!holds) std::this_thread::sleep_for(20ms);
  }
  return holds;
}

void test_server::promote() {
  if (!waits_for("pg_promote()") || !waits_for("not pg_is_in_recovery()"))
    fail("the standby is not promoted:\n" + log());
}

void test_server::stop_sending() const {
  for (const pid_t process : processes())
    if (text_of("/proc/" + std::to_string(process) + "/cmdline").find("walsender") != std::string::npos)
      ::kill(process, SIGSTOP);
}

void test_server::stop() { end(SIGINT); }

void test_server::begin_to_stop() const { ::kill(server_, SIGQUIT); }

bool test_server::has_stopped() {
  if (::waitpid(server_, nullptr, WNOHANG) != server_) return false;
  server_ = -1;
  return true;
}

void test_server::end(int signal) {
  if (server_ < 0) return;
  ::kill(server_, signal);
  ::waitpid(server_, nullptr, 0);
  server_ = -1;
}

std::vector<pid_t> test_server::processes() const {
  std::vector<pid_t> all{server_};
  for (const auto& entry : fs::directory_iterator{"/proc"}) {
    const pid_t process = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (process > 0 && parent_of(process) == server_) all.push_back(process);
  }
  return all;
}

void test_server::kill() {
  if (server_ < 0) return;
  for (const pid_t process : processes()) ::kill(process, SIGKILL);
  ::waitpid(server_, nullptr, 0);
  server_ = -1;
}

void test_server::freeze() const {
  for (const pid_t process : processes()) ::kill(process, SIGSTOP);
}

void test_server::thaw() const {
  for (const pid_t process : processes()) ::kill(process, SIGCONT);
}

std::string test_server::conninfo(const std::string& more) const {
  return "host=" + folder_ + " user=tester dbname=postgres " + more;
}

std::string test_server::log() const { return text_of(folder_ + "/server.log"); }

test_server& test_server::shared() {
  static test_server one;
  return one;
}

}  // namespace conformance
