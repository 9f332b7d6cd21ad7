// Writes to a stream of a user, in a format of our own.
#pragma once

#include <ios>
#include <ostream>

namespace tickwheel {

/// Sets how a stream writes numbers, until the end of the block, also if the stream throws.
///
/// *Thread safety:* the thread that writes. *Lifetime:* the stream outlives it.
class stream_format {
 public:
  stream_format(std::ostream& out, std::ios_base::fmtflags flags, std::streamsize precision)
      : out_{out}, flags_{out.flags(flags)}, precision_{out.precision(precision)} {}
  ~stream_format() {
    out_.precision(precision_);
    out_.flags(flags_);
  }
  stream_format(const stream_format&) = delete;
  stream_format& operator=(const stream_format&) = delete;

 private:
  std::ostream& out_;
  std::ios_base::fmtflags flags_;
  std::streamsize precision_;
};

}  // namespace tickwheel
