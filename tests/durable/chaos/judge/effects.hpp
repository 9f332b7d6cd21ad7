// The effects that SQL clients wrote in the transactions that ended starts.
#pragma once

#include "../server/database.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace chaos {

/// A start that waits for an SQL client.
struct external_start {
  unsigned process = 0;  ///< that runs it
  std::string id;
  std::string token;
  std::string key;  ///< tells effects apart: the order and the due
};

/// Compares the table of effects with the answers. The table has no unique key.
class effects_judge {
 public:
  /// An SQL client has answered a finish.
  void note(const external_start&, std::string_view answer);
  /// The last list has this task as finished, and only an effect finishes it.
  void note_finished(std::string id) { finished_.insert(std::move(id)); }

  /// Appends what is broken.
  void judge(const database&, std::vector<std::string>& broken);
  std::size_t effects() const { return effects_; }
  std::size_t twice() const { return twice_; }

 private:
  std::unordered_map<std::string, std::string> answers_;  // by token
  std::unordered_map<std::string, std::string> id_of_;    // a key
  std::unordered_set<std::string> finished_;
  std::size_t effects_ = 0;
  std::size_t twice_ = 0;
};

}  // namespace chaos
