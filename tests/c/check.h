/* What tests in C need: checks that say where they failed, and a count for the last line. */
#ifndef TICKWHEEL_TESTS_C_CHECK_H
#define TICKWHEEL_TESTS_C_CHECK_H

#include <stdio.h>
#include <stdlib.h>
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

/* Takes an answer that does not matter, where gcc would warn in spite of a cast. */
static void ignore(int answer) { (void)answer; }

/* The arguments of GoogleTest's programs: --gtest_filter=PATTERN[:PATTERN...], where each test is c.NAME, and
 * --gtest_list_tests. A filter that names no test fails. */
static const char* chosen = "*";
static int listing = 0;

static void choose_tests(int argc, char** argv) {
  static const char filter[] = "--gtest_filter=";
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], filter, sizeof filter - 1) == 0) chosen = argv[i] + sizeof filter - 1;
    if (strcmp(argv[i], "--gtest_list_tests") == 0) listing = 1;
  }
  if (strchr(chosen, '-') != NULL) {
    printf("--gtest_filter=%s: tests of C cannot be left out by a -\n", chosen);
    exit(2);
  }
  if (listing) printf("c.\n");
}

/* * is anything, and ? any one character; the pattern ends at a colon */
static int matches(const char* pattern, const char* name) {
  if (*pattern == '\0' || *pattern == ':') return *name == '\0';
  if (*pattern == '*') return matches(pattern + 1, name) || (*name != '\0' && matches(pattern, name + 1));
  return *name != '\0' && (*pattern == '?' || *pattern == *name) && matches(pattern + 1, name + 1);
}

static int is_chosen(const char* name) {
  char full[256];
  const char* pattern = chosen;
  snprintf(full, sizeof full, "c.%s", name);
  for (; pattern != NULL; pattern = strchr(pattern, ':')) {
    if (*pattern == ':') ++pattern;
    if (matches(pattern, full)) return 1;
  }
  return 0;
}

static void run_test(const char* name, void (*test)(void)) {
  if (!is_chosen(name)) return;
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
  if (tests_run == 0) {
    printf("--gtest_filter=%s: names no test\n", chosen);
    return 1;
  }
  printf("[  PASSED  ] %d tests.\n", tests_run - tests_failed);
  if (tests_failed != 0) printf("[  FAILED  ] %d tests, listed below:\n", tests_failed);
  return tests_failed != 0;
}

#endif
