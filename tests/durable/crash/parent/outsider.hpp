// Another program that uses the file of a scheduler, such as SQLite's shell or a nightly backup.
#pragma once

#include <memory>
#include <string>

struct sqlite3;

namespace crash {

/// Reads and copies the file with connections of its own. A file that is busy or not there yet is left alone.
class outsider {
 public:
  explicit outsider(std::string file) : file_{std::move(file)}, copy_{file_ + ".copy"} {}

  /// Begins to read, and goes on until `end_reading`. The log cannot be reset meanwhile.
  void begin_reading();
  void end_reading() { reader_.reset(); }
  bool is_reading() const noexcept { return reader_ != nullptr; }

  /// Opens the file, reads something and closes it.
  void look() const;

  /// Copies the file with SQLite's backup. Returns false if it could not; the last copy is then gone.
  bool back_up();
  /// The copy takes the place of the file, whose child is gone. Returns false if it cannot.
  bool restore();

  /// Returns an empty text if SQLite finds no error in the file, else the first one.
  std::string check() const;

 private:
  struct closed {
    void operator()(sqlite3*) const noexcept;
  };
  using connection = std::unique_ptr<sqlite3, closed>;

  static connection open(const std::string& file, int flags);

  std::string file_;
  std::string copy_;
  connection reader_;
};

}  // namespace crash
