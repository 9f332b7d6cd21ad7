/* What tests in C need: checks that say where they failed, and a count for the last line. */
#ifndef TICKWHEEL_TESTS_C_CHECK_H
#define TICKWHEEL_TESTS_C_CHECK_H

#include <stdio.h>

static int failures = 0;
static int tests_run = 0;
static int tests_failed = 0;

#define CHECK(holds)                                                    \
  do {                                                                  \
    if (!(holds)) {                                                     \
      printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds); \
      ++failures;                                                       \
    }                                                                   \
  } while (0)

#define CHECK_EQUAL(a, b)                                                                        \
  do {                                                                                           \
    const long long is_ = (long long)(a), wanted_ = (long long)(b);                              \
    if (is_ != wanted_) {                                                                        \
      printf("%s:%d: %s is %lld, and not %s, %lld\n", __FILE__, __LINE__, #a, is_, #b, wanted_); \
      ++failures;                                                                                \
    }                                                                                            \
  } while (0)

#define RUN(test)                                                          \
  do {                                                                     \
    failures = 0;                                                          \
    printf("[ RUN      ] %s\n", #test);                                    \
    fflush(stdout);                                                        \
    test();                                                                \
    ++tests_run;                                                           \
    if (failures != 0) ++tests_failed;                                     \
    printf("[ %s ] %s\n", failures == 0 ? "      OK" : " FAILED ", #test); \
  } while (0)

/* as GoogleTest counts, so that the tests of both are added up */
static int report(void) {
  printf("[  PASSED  ] %d tests.\n", tests_run - tests_failed);
  if (tests_failed != 0) printf("[  FAILED  ] %d tests, listed below:\n", tests_failed);
  return tests_failed != 0;
}

#endif
