// stdin, stdout and stderr, which whoever starts a program may have closed.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

/// Opens /dev/null in the place of each of the three that is closed. Otherwise a socket or a file of the program would take its place:
/// libuv aborts when it closes such a descriptor, and a message for stderr would go into the file. Call it before anything is opened.
inline void open_standard_descriptors() noexcept {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(wanted, F_GETFD) == -1) (void)::open("/dev/null", O_RDWR);  // takes the lowest that is free: this one
}
