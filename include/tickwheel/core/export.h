/* TICKWHEEL_API marks what the shared library exports: all that programs call, by themselves or through what headers have
 * inline. The library is built with hidden visibility, so what is not marked is its own. For C, too.
 *
 * On Windows, where nothing is tested, only the static library is of use. */
#ifndef TICKWHEEL_EXPORT_H
#define TICKWHEEL_EXPORT_H

/* Marks what the shared library exports. */
#if defined(__GNUC__) && !defined(_WIN32)
#define TICKWHEEL_API __attribute__((visibility("default")))
#else
#define TICKWHEEL_API
#endif

#endif
