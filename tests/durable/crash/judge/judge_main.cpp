// Judges a journal that was kept: crash_judge FILE
#include "judge.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: crash_judge FILE\n", stderr);
    return 2;
  }
  std::ifstream file{words[1]};
  if (!file) {
    std::fprintf(stderr, "crash_judge: %s cannot be read\n", words[1]);
    return 2;
  }
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const crash::journal j = crash::read_journal(text);
  const crash::verdict v = crash::judge(j);
  std::printf("%s%zu tasks, %zu starts, %zu violations\n", crash::report(j, v, 20).c_str(), v.tasks, v.starts,
              v.violations.size());
  return v.violations.empty() ? 0 : 1;
}
