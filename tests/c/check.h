/* What tests in C need: checks that say where they failed, and a count for the last line. */
#ifndef TICKWHEEL_TESTS_C_CHECK_H
#define TICKWHEEL_TESTS_C_CHECK_H

#include <stdio.h>
#include <string.h>

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

/* The arguments of GoogleTest's programs: --gtest_filter=c.NAME, for that test alone, and --gtest_list_tests. */
static const char* chosen = NULL;
static int listing = 0;

static void choose_tests(int argc, char** argv) {
  static const char filter[] = "--gtest_filter=c.";
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], filter, sizeof filter - 1) == 0) chosen = argv[i] + sizeof filter - 1;
    if (strcmp(argv[i], "--gtest_list_tests") == 0) listing = 1;
  }
  if (listing) printf("c.\n");
}

static void run_test(const char* name, void (*test)(void)) {
  if (chosen != NULL && strcmp(chosen, name) != 0) return;
  if (listing) {
    printf("  %s\n", name);
    return;
  }
  failures = 0;
  printf("[ RUN      ] %s\n", name);
  fflush(stdout);
  test();
  ++tests_run;
  if (failures != 0) ++tests_failed;
  printf("[ %s ] %s\n", failures == 0 ? "      OK" : " FAILED ", name);
}
#define RUN(test) run_test(#test, test)

/* as GoogleTest counts, so that the tests of both are added up */
static int report(void) {
  if (listing) return 0;
  printf("[  PASSED  ] %d tests.\n", tests_run - tests_failed);
  if (tests_failed != 0) printf("[  FAILED  ] %d tests, listed below:\n", tests_failed);
  return tests_failed != 0;
}

#endif
