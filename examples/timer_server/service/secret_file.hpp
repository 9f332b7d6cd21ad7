// Files with secrets.
#pragma once

#include <string>
#include <variant>

namespace timer_server {

/// Why a file was not read: a whole line without the file's name.
struct file_problem {
  std::string why;
};

/// Returns the content of a file of at most 1 MiB. Refuses a file that is not regular, and one that others than its owner and its
/// group may read, or others than its owner may write.
std::variant<std::string, file_problem> read_secret_file(const std::string& path);

}  // namespace timer_server
