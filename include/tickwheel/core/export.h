/* TICKWHEEL_API marks the names that the shared library exports: those that programs call, directly or through inline code of the
 * headers. All other names are hidden. C programs use it as well.
 *
 * On Windows, which is not tested, only the static library works. */
#ifndef TICKWHEEL_EXPORT_H
#define TICKWHEEL_EXPORT_H

/* Marks a name that the shared library exports. */
#if defined(__GNUC__) && !defined(_WIN32)
#define TICKWHEEL_API __attribute__((visibility("default")))
#else
#define TICKWHEEL_API
#endif

/* Marks a name that each module has for itself. */
#if defined(__GNUC__) && !defined(_WIN32)
#define TICKWHEEL_LOCAL __attribute__((visibility("hidden")))
#else
#define TICKWHEEL_LOCAL
#endif

#endif
