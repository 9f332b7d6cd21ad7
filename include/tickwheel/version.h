/* The version of these headers. For C, too; what is linked is asked by tickwheel::version() and tw_version_string().
 *
 *   #if TICKWHEEL_VERSION_NUMBER >= TICKWHEEL_MAKE_VERSION(0, 2, 0)
 */
#ifndef TICKWHEEL_VERSION_H
#define TICKWHEEL_VERSION_H

/* One of the three parts. */
#define TICKWHEEL_VERSION_MAJOR 0
#define TICKWHEEL_VERSION_MINOR 1
#define TICKWHEEL_VERSION_PATCH 0

/* 0xMMmmpp */
#define TICKWHEEL_MAKE_VERSION(major, minor, patch) (((major) << 16) | ((minor) << 8) | (patch))
#define TICKWHEEL_VERSION_NUMBER \
  TICKWHEEL_MAKE_VERSION(TICKWHEEL_VERSION_MAJOR, TICKWHEEL_VERSION_MINOR, TICKWHEEL_VERSION_PATCH)

#define TICKWHEEL_QUOTE_(x) #x
#define TICKWHEEL_JOIN_(major, minor, patch) \
  TICKWHEEL_QUOTE_(major) "." TICKWHEEL_QUOTE_(minor) "." TICKWHEEL_QUOTE_(patch)
/* "major.minor.patch" */
#define TICKWHEEL_VERSION TICKWHEEL_JOIN_(TICKWHEEL_VERSION_MAJOR, TICKWHEEL_VERSION_MINOR, TICKWHEEL_VERSION_PATCH)

#endif
