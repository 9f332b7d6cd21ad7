// The tables of a database file, and which files are ours.
#pragma once

#include "connection.hpp"

namespace tickwheel::durable::sqlite {

/// "twdb" in ASCII: marks a file as ours, for instance for file(1).
inline constexpr int application_id = 0x74776462;
/// The version of the tables. A store reads files of this version only.
inline constexpr int schema_version = 1;

/// Makes the tables in an empty file, and turns on the write-ahead log. Checks any other file, and leaves a foreign one as it
/// was. Throws `failure`.
void prepare_file(const connection&);

}  // namespace tickwheel::durable::sqlite
