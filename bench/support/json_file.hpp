// The option --json FILE of the benchmarks that are not Google Benchmark's: figures for other programs to read.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <string>

namespace tickwheel::bench {

class json_file {
 public:
  void add_option(CLI::App& app) {
    app.add_option("--json", path_, "also write the figures to this file")->type_name("FILE");
  }

  /// Does nothing if the option was not given. If the file cannot be written, prints a line that says so and returns false.
  bool write(const nlohmann::json& figures) const {
    if (path_.empty()) return true;
    std::ofstream out{path_};
    out << figures.dump(1) << '\n';
    if (out.flush()) return true;
    std::fprintf(stderr, "--json: %s cannot be written\n", path_.c_str());
    return false;
  }

 private:
  std::string path_;
};

}  // namespace tickwheel::bench
