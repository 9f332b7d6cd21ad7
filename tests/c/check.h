/* What tests in C need: checks that say where they failed, and a count for the last line. */
#ifndef TICKWHEEL_TESTS_C_CHECK_H
#define TICKWHEEL_TESTS_C_CHECK_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static struct test {
  const char* name;
  void (*run)(void);
} tests[128];
static size_t test_count = 0;

static void add_test(const char* name, void (*run)(void)) {
  tests[test_count].name = name;
  tests[test_count++].run = run;
}

/* Defines a test, which is run in the order of the file. FIXTURE_TEST: between two statements. */
#define FIXTURE_TEST(name, before, after)                                                    \
  static void name(void);                                                                    \
  static void run_##name(void) {                                                             \
    before;                                                                                  \
    name();                                                                                  \
    after;                                                                                   \
  }                                                                                          \
  __attribute__((constructor)) static void add_##name(void) { add_test(#name, run_##name); } \
  static void name(void)
#define TEST(name) FIXTURE_TEST(name, (void)0, (void)0)

/* Makes `call` in a child, which must stop with a line that begins "tickwheel: " and has `named` in it. */
#define STOPS_NAMED(what, call, named) \
  do {                                 \
    if (in_child()) {                  \
      call;                            \
      _exit(0);                        \
    }                                  \
    expect_stop(what, named);          \
  } while (0)
#define STOPS(call, named) STOPS_NAMED(#call, call, named)

static pid_t tested_child;
static int child_says;

static int in_child(void) {
  int out[2];
  fflush(stdout);
  CHECK_EQUAL(pipe(out), 0);
  tested_child = fork();
  if (tested_child == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(out[1], STDERR_FILENO);
  }
  close(out[1]);
  child_says = out[0];
  return tested_child == 0;
}

static void expect_stop(const char* what, const char* named) {
  char said[512];
  size_t length = 0;
  ssize_t got;
  int status = 0;
  while (length < sizeof said - 1 && (got = read(child_says, said + length, sizeof said - 1 - length)) > 0)
    length += (size_t)got;
  said[length] = '\0';
  close(child_says);
  CHECK_EQUAL(waitpid(tested_child, &status, 0), tested_child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, "tickwheel: ") != NULL &&
      strstr(said, named) != NULL)
    return;
  printf("%s: was to stop and name '%s'; it said '%s'\n", what, named, said);
  ++failures;
}

/* as GoogleTest counts, so that the tests of both are added up */
static int run_tests(void) {
  for (const struct test* t = tests; t != tests + test_count; ++t) {
    if (!is_chosen(t->name)) continue;
    if (listing) {
      printf("  %s\n", t->name);
      continue;
    }
    failures = 0;
    printf("[ RUN      ] %s\n", t->name);
    fflush(stdout);
    t->run();
    ++tests_run;
    if (failures != 0) ++tests_failed;
    printf("[ %s ] %s\n", failures == 0 ? "      OK" : " FAILED ", t->name);
  }
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
