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

/* Marks a function that inline code calls for each timer. Where the compiler can, the call then goes straight to the function, and
 * not by way of the linkage table. */
#ifdef __has_attribute
#if __has_attribute(noplt)
#define TICKWHEEL_CALLED_OFTEN __attribute__((noplt))
#endif
#endif
#ifndef TICKWHEEL_CALLED_OFTEN
#define TICKWHEEL_CALLED_OFTEN
#endif

#endif
