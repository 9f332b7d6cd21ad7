// A stream that throws once it has taken some characters, as on a disk that is full.
#pragma once

#include <array>
#include <ostream>
#include <streambuf>

class short_buffer : public std::streambuf {
 public:
  short_buffer() { setp(room_.data(), room_.data() + room_.size()); }

 private:
  std::array<char, 20> room_;
};

class short_stream : public std::ostream {
 public:
  short_stream() : std::ostream{nullptr} {
    rdbuf(&buffer_);
    exceptions(std::ios_base::badbit);
  }

 private:
  short_buffer buffer_;
};
