// Moves the tasks of a SQLite file to a PostgreSQL database, in one transaction, and checks that all of them arrived.
//
//   tickwheel-durable-move orders.db "host=db.example.com dbname=shop" [SCHEMA]
//
// No scheduler may have the file. The database must have none of its ids. All tasks keep their state, times, attempts and tokens.
// The first node recovers a task that was running when its process died, like a task of a lost node. At the end the file is
// renamed, so that no program starts its tasks a second time.
//
//   exit code 0   all tasks are in the database
//             1   nothing was moved, unless the line on stderr says otherwise
//             2   wrong arguments

#include "state_counts.hpp"
#include "task_database.hpp"
#include "task_file.hpp"

#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

namespace {

namespace move = tickwheel::durable::move;
using tickwheel::durable::postgres::failure;

constexpr int failed = 1, wrong_arguments = 2;

int fail(std::initializer_list<std::string_view> why) {
  std::string line = "tickwheel-durable-move: ";
  for (const std::string_view part : why) line += part;
  std::fprintf(stderr, "%s\n", line.c_str());
  return failed;
}

void print(const move::state_counts& file, const move::state_counts& database) {
  std::printf("%-10s %12s %12s\n", "", "file", "database");
  for (std::size_t i = 0; i != file.size(); ++i)
    std::printf("%-10s %12jd %12jd\n", move::state_names[i], std::intmax_t{file[i]}, std::intmax_t{database[i]});
  std::printf("%-10s %12jd %12jd\n", "all", std::intmax_t{move::sum_of(file)}, std::intmax_t{move::sum_of(database)});
}

int run(const std::string& path, const std::string& conninfo, const std::string& schema) {
  try {
    move::task_file file{path};
    move::task_database database{conninfo, schema};
    database.write(file);
    const move::state_counts before = file.count(), after = database.count();
    print(before, after);
    if (before != after) return fail({"the database did not take all tasks as they are; nothing was moved"});
    try {
      database.commit();
    } catch (const failure& f) {
      return fail({"the commit failed: ", f.text(),
                   "; run the program again: if it then says that the database has all tasks, they were moved"});
    }
    try {
      std::printf("moved; the file is %s now\n", file.retire().c_str());
    } catch (const tickwheel::durable::sqlite::failure& f) {
      return fail({path, ": ", f.text(),
                   "; all tasks are in the database, so remove the file before a program starts its tasks again"});
    }
    return 0;
  } catch (const tickwheel::durable::sqlite::failure& f) {
    return fail({path, ": ", f.text(), "; nothing was moved"});
  } catch (const move::unconfirmed& f) {
    return fail({"the database has all tasks of the file, but perhaps its synchronous standby does not: ", f.text(),
                 "; run the program again"});
  } catch (const failure& f) {
    return fail({"PostgreSQL: ", f.text(), "; nothing was moved"});
  } catch (const std::exception& e) {
    return fail({e.what(), "; nothing was moved"});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: tickwheel-durable-move FILE CONNINFO [SCHEMA]\n");
    return wrong_arguments;
  }
  return run(argv[1], argv[2], argc == 4 ? argv[3] : tickwheel::durable::postgres_options{}.schema);
}
