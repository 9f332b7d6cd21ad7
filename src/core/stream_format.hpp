// Writes to a stream of a user, in a format of our own.
#pragma once

#include <ios>
#include <locale>
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

/// Makes a stream independent of its locale until the end of the block, because one that groups digits would change the numbers.
///
/// *Thread safety:* the thread that writes. *Lifetime:* the stream outlives it.
class classic_locale {
 public:
  explicit classic_locale(std::ostream& of) : of_{of}, before_{of.imbue(std::locale::classic())} {}
  ~classic_locale() { of_.imbue(before_); }
  classic_locale(const classic_locale&) = delete;
  classic_locale& operator=(const classic_locale&) = delete;

 private:
  std::ostream& of_;
  std::locale before_;
};

}  // namespace tickwheel
