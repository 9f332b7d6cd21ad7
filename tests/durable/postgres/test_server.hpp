// A PostgreSQL server for the tests of one program, in a folder of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace conformance {

/// The exit code of a test that Meson counts as skipped.
inline constexpr int skipped = 77;

/// A data folder, and the server that runs on it. It listens on a Unix socket in its own folder only. It is stopped when the
/// object is destroyed, and when this program dies.
///
/// A program that runs as root lets the user `nobody` own and run the server, because PostgreSQL refuses to run as root.
class test_server {
 public:
  /// Returns the folder of PostgreSQL's programs. No value: they are not installed.
  static std::optional<std::string> find_programs();

  /// Makes the data folder, and starts the server. `settings`: further lines for postgresql.conf. `environment`: further variables of
  /// the server, NAME=VALUE. `data_parent`: where the folder with the data is made; empty: in the folder of the socket.
  explicit test_server(const std::vector<std::string>& settings = {}, std::vector<std::string> environment = {},
                       const std::string& data_parent = {});
  /// Makes a standby of `primary`, and waits until it streams.
  test_server(const test_server& primary, const std::vector<std::string>& settings);
  ~test_server();
  test_server(const test_server&) = delete;
  test_server& operator=(const test_server&) = delete;

  void start();
  /// Makes a standby a primary, and waits until it is one.
  void promote();
  /// Ends the server; its backends roll back what they do.
  void stop();
  /// Begins to end the server without a checkpoint, as `pg_ctl stop -m immediate`: the next start recovers. The server waits a minute
  /// for clients that have not told who they are, so whoever holds such clients back lets them go on until `has_stopped`.
  void begin_to_stop() const;
  /// Returns true if the server has ended.
  bool has_stopped();
  /// Kills the server and its backends, as a crash of the machine does.
  void kill();
  /// Stops the processes that send the log to standbys. They are gone with the server.
  void stop_sending() const;
  /// Stops all processes of the server for a while, and lets them go on.
  void freeze() const;
  void thaw() const;

  /// Returns a conninfo of a database. `more`: further words.
  std::string conninfo(const std::string& more = {}) const;
  const std::string& folder() const { return folder_; }
  std::string log() const;
  /// Starts a program as the user of the server. It is killed when this program dies.
  pid_t spawn(const std::vector<std::string>& command, const std::string& output) const;

  /// The server that the tests of this program share. Started by the first call.
  static test_server& shared();

 private:
  struct new_data {};
  /// Makes a data folder that others are copied from, and starts no server.
  explicit test_server(new_data);

  void make_folder(const std::string& data_parent = {});
  void write_settings(const std::vector<std::string>& settings) const;
  bool waits_for(const std::string& condition) const;
  void end(int signal);
  int run(const std::vector<std::string>& command, const std::string& output) const;
  bool accepts_connections() const;
  void wait_until_ready() const;
  std::vector<pid_t> processes() const;

  std::string programs_;
  std::string folder_;
  std::string data_;
  std::vector<std::string> environment_;
  pid_t server_ = -1;
};

}  // namespace conformance
