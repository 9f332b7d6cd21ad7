// Judges a journal: which promises of the durable layer does it break?
#pragma once

#include "journal.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace crash {

/// A broken promise.
struct violation {
  std::string promise;             ///< "D1" to "D12"; "journal": the journal itself is broken
  std::string id;                  ///< of the task
  std::string text;                ///< what was observed, and what would have been right
  std::vector<std::size_t> lines;  ///< of the journal, from 0
};

/// The result of a round.
struct verdict {
  std::vector<violation> violations;  ///< at most one per task
  std::size_t tasks = 0;
  std::size_t starts = 0;        ///< handlers that were entered
  std::size_t lost = 0;          ///< tasks that did not start, and were neither cancelled nor replaced
  std::size_t early = 0;         ///< starts before the due time
  std::size_t after_cancel = 0;  ///< starts after a confirmed cancel
  std::size_t tokens_twice = 0;  ///< starts with a token that another start had
};

/// The lines that a judge reads. The first judge reads all but the rows of lists. The second compares these rows with what the first has
/// found out.
enum class judging { events, events_and_lists };

verdict judge(const journal&, judging = judging::events_and_lists);

/// Writes violations with their lines.
std::string report(const journal&, const verdict&, std::size_t most);

}  // namespace crash
