"""The report of the benchmarks, made of a small one whose figures stand for nothing."""
import contextlib
import copy
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "bench/report"))

import document  # noqa: E402 (the path first)
import durable  # noqa: E402
import plan  # noqa: E402
import programs  # noqa: E402
from errors import ReportError  # noqa: E402
from figures import SUBJECTS, Figures, Sample  # noqa: E402
import template  # noqa: E402

REPORT = json.loads((here / "report.json").read_text())
PLOTS = {"rearm": "rearm.svg"}


def program():
    spec = importlib.util.spec_from_file_location("report", here.parents[1] / "bench/report/__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    return program().main


def figures(change=lambda runs: None):
    report = copy.deepcopy(REPORT)
    change(report["runs"])
    return Figures(report["context"], report["runs"])


def durable_figures(change=lambda runs: None):
    report = copy.deepcopy(REPORT)
    change(report["runs"])
    return durable.DurableFigures(report["context"], report["runs"])


def benchmark(runs, name):
    return next(b for r in runs for b in r["output"].get("benchmarks", ()) if b["name"] == name)


def assert_full_rows(test, page):
    """Each row of a table has as many cells as its head."""
    head = None
    for line in page.splitlines():
        head = (head or line.count("|")) if line.startswith("|") else None
        if head:
            test.assertEqual(line.count("|"), head, line)


class Medians(unittest.TestCase):
    def test_are_of_all_repetitions(self):
        sample = figures().ns("rearm", "wheel", 1000)
        self.assertEqual(sample.count, 3)
        self.assertAlmostEqual(sample.median, 1e9 * benchmark(REPORT["runs"], "rearm/wheel/1000")["per_item"])

    def test_come_with_the_least_and_the_most(self):
        sample = figures().ns("rearm", "wheel", 1000)
        least, most = sample.spread
        self.assertAlmostEqual(least / sample.median, 0.5, places=2)
        self.assertAlmostEqual(most / sample.median, 3, places=2)

    def test_of_what_was_not_measured_are_none(self):
        self.assertIsNone(figures().ns("rearm", "wheel", 77))

    def test_compare_a_peer_with_ours(self):
        f = figures()
        self.assertAlmostEqual(f.ratio("fire", "libuv", 1000, "wheel"),
                               f.ns("fire", "libuv", 1000).median / f.ns("fire", "wheel", 1000).median)


class WrongOutcome(unittest.TestCase):
    def test_of_a_benchmark_ends_the_report_with_its_name(self):
        def change(runs):
            benchmark(runs, "touch/libuv/1000").update(error_occurred=True, error_message="the outcome is not what it should be")
        with self.assertRaisesRegex(ReportError, "touch/libuv/1000: the outcome"):
            figures(change)

    def test_is_found_by_a_checksum_that_differs(self):
        def change(runs):
            benchmark(runs, "touch/libuv/1000")["checksum"] += 1
        with self.assertRaisesRegex(ReportError, "touch/libuv/1000: its checksum"):
            figures(change)

    def test_of_a_part_that_is_missing_names_it(self):
        for program in ("latency_bench", "burst_bench", "echo_bench", "remote_bench", "cost_model", "worker_bench", "loops_bench"):
            with self.subTest(program), self.assertRaisesRegex(ReportError, program):
                figures(lambda runs: runs.__setitem__(slice(None), [r for r in runs if r["program"] != program]))

    def test_of_a_workload_that_is_missing_names_it(self):
        def change(runs):
            runs[:] = [r for r in runs if "^fire/" not in r["command"]]
        with self.assertRaisesRegex(ReportError, "fire"):
            figures(change)


class Page(unittest.TestCase):
    def setUp(self):
        self.page = document.write(figures(), PLOTS, "benchmarks")

    def test_says_what_it_was_measured_on(self):
        for what in ("Some Processor", "2026-01-02 03:04 UTC", "0123456789", "libuv 1.44.2", "Boost 1.74", "-O3"):
            self.assertIn(what, self.page)

    def test_has_a_table_for_each_workload_with_each_n(self):
        for workload in ("rearm", "arm_cancel", "request", "touch", "touch_30s", "arm", "fire", "lifecycle", "pause"):
            section = self.page.split(f"\n### {workload}\n")[1].split("\n### ")[0]
            self.assertIn("|  | 1,000 | 10,000 |", section)
            self.assertIn("| `timer_at` |", section)

    def test_says_how_many_repetitions_a_figure_has(self):
        section = self.page.split("\n### rearm\n")[1].split("\n### ")[0]
        self.assertRegex(section, r"\| `wheel` \| \S+ \(3\) \| \S+ \(1\) \|")

    def test_shows_the_plots_there_are(self):
        self.assertIn("(benchmarks/rearm.svg)", self.page)
        self.assertNotIn("(benchmarks/touch.svg)", self.page)

    def test_is_the_same_for_the_same_figures(self):
        self.assertEqual(self.page, document.write(figures(), PLOTS, "benchmarks"))

    def test_has_as_many_cells_in_each_row_as_in_its_head(self):
        assert_full_rows(self, self.page)


class NotTheFastest(unittest.TestCase):
    """The tables at the top of the page, which say where a peer is faster."""

    def section(self, change=lambda runs: None):
        return document.write(figures(change), PLOTS, "benchmarks").split("\n## Where it is not the fastest\n")[1].split("\n## ")[0]

    @staticmethod
    def slower(name, times):
        def change(runs):
            benchmark(runs, name)["per_item"] *= times
        return change

    def test_name_each_faster_peer_with_its_share(self):
        self.assertRegex(self.section(), r"\| \*fire\* \| 1,000 \| \S+ \| [^|]+ \| 602 \| libuv 348 \(0\.58x\) \| 241 \| – \|")

    def test_have_no_row_where_no_peer_is_faster(self):
        self.assertNotIn("| *rearm* |", self.section())

    def test_get_a_row_when_a_peer_becomes_faster(self):
        self.assertRegex(self.section(self.slower("arm_cancel/libuv/1000", 1e-3)),
                         r"(?m)^\| \*arm_cancel\* \| 1,000 \| .* \| libuv 0\.\d+ \(0\.\d+x\) \|$")

    def test_name_three_peers_and_each_loop_and_count_the_others(self):
        faster = [(name, Sample((at,))) for at, name in enumerate(("a", "b", "c", "d", "libuv", "e"), 1)]
        self.assertEqual(document.Page.others(faster, Sample((100,))),
                         "a 1.00 (0.01x), b 2.00 (0.02x), c 3.00 (0.03x), libuv 5.00 (0.05x), and 2 more")

    def test_are_none_where_nobody_is_faster(self):
        self.assertEqual(document.Page.others([], Sample((1,))), "–")

    def test_have_the_rows_of_the_other_programs(self):
        self.assertIn("| *post*, producers: 1 | 16.1 M/s | mutex_vector 19.6 M/s |", self.section())
        self.assertIn("| *fire*, callers: 1, worker | 900 ns | netty, tick 1 ms 690 ns |", self.section())
        self.assertNotIn("| *cancel*, callers: 1, caller |", self.section())

    def test_are_at_the_top_of_the_page(self):
        page = document.write(figures(), PLOTS, "benchmarks")
        self.assertEqual([title for title in page.split("\n") if title.startswith("## ")][:2],
                         ["## In short", "## Where it is not the fastest"])


class TimerThread(unittest.TestCase):
    def test_has_rows_of_netty_and_of_ours_with_medians(self):
        page = document.write(figures(), PLOTS, "benchmarks")
        self.assertIn("| *fire* `tickwheel` | 1 | 220 | 900 |", page)
        self.assertIn("| *fire* `netty, tick 1 ms` | 1 | 176 | 690 |", page)
        self.assertIn("Netty 4.1.48.Final, Java 17.0.15", page)
        self.assertNotIn("Netty was not measured", page)

    def test_says_that_netty_was_not_measured(self):
        page = document.write(figures(lambda runs: runs.__setitem__(slice(None), [r for r in runs if r["program"] != "netty"])), PLOTS,
                              "benchmarks")
        self.assertIn("**Netty was not measured**", page)
        self.assertIn("| *fire* `tickwheel` | 1 | 220 | 900 |", page)


class TwoLoops(unittest.TestCase):
    def test_have_a_ratio_for_each_processor(self):
        self.assertIn("| *timer* | 1,000 | 0 | 4.00 | 4.10 | 1.025x | 2 |", document.write(figures(), PLOTS, "benchmarks"))

    def test_are_not_measured_on_one_processor(self):
        def change(runs):
            next(r for r in runs if r["program"] == "loops_bench")["output"]["rows"] = []
        self.assertIn("only one processor", document.write(figures(change), PLOTS, "benchmarks"))


class Readme(unittest.TestCase):
    def test_has_the_timers_that_users_call_first(self):
        table = document.Page(figures(), PLOTS, "benchmarks").readme()
        self.assertTrue(table.startswith("| operation | `arm`, reads the clock | `arm_at`, stamped time | `wheel` | libuv |"), table)
        self.assertIn("\n| rearm | 55.9 | 10.4 | 6.82 | 132 |", table)


class DurableTasks(unittest.TestCase):
    def page(self, change=lambda runs: None, drawn=PLOTS):
        return durable.write(durable_figures(change), drawn, "benchmarks-durable")

    def test_have_rates_beside_raw_sqlite_and_their_ratio(self):
        page = self.page()
        self.assertIn("| pending | raw schedule | schedule | ratio | raw cancel | cancel | ratio | raw start+finish | start+finish "
                      "| ratio |", page)
        self.assertIn("| 1,000 | 80,000 | 40,000 | 0.50x | 100,000 | 70,000 | 0.70x | 30,000 | 24,000 | 0.80x |", page)
        self.assertIn("| 10,000 | 60,000 | 45,000 | 0.75x | 90,000 | 36,000 | 0.40x | 20,000 | 5,000 | 0.25x |", page)

    def test_have_times_in_milliseconds(self):
        page = self.page()
        self.assertIn("| pending | fsync p50 | fsync p99 | lateness p50 | lateness p99 | one tick | recovery | iteration p99 "
                      "| longest iteration |", page)
        self.assertRegex(page, r"\| 1,000 \| 0.40 \| 1.20 \| 1.10 \| 9.80 \| 23.4 \| 45.6 \| \S+ \| 3.30 \|")

    def test_have_figures_beside_their_bounds(self):
        def change(runs):
            runs.append({"program": "durable_bench", "command": "durable_bench", "seconds": 1.0, "filesystem": "ext4", "output": {
                "rows": [{"name": "fsync", "pending": 5}, {"name": "one tick", "pending": 5, "max_us": 90000},
                         {"name": "callbacks", "pending": 5, "p99_us": 300, "max_us": 900},
                         {"name": "memory of a loaded task", "pending": 5, "value": 263, "bound": 400, "unit": "bytes"},
                         {"name": "load", "pending": 5, "per_second": 1_300_000}]}})
        page = self.page(change)
        for row in ("| one tick | 5 | 90.0 | 250 | ms |", "| CPU time of an iteration, longest | 5 | 0.90 | 1 | ms |",
                    "| memory of a loaded task | 5 | 263 | 400 | bytes |", "| load | 5 | 1,300,000 |"):
            self.assertIn(row, page)
        self.assertNotIn("memory", self.page())

    def test_name_the_file_system_the_libraries_and_each_run(self):
        page = self.page(drawn={"durable": "durable.svg"})
        self.assertIn("The files are on ext4.", page)
        self.assertIn("(benchmarks-durable/durable.svg)", page)
        self.assertIn("SQLite 3.40.1", page)
        self.assertIn("| `durable_bench --store postgres --nodes 2` |", page)

    def test_have_a_page_of_their_own(self):
        self.assertNotIn("Durable", document.write(figures(), PLOTS, "benchmarks"))

    def test_without_one_of_their_rows_end_the_report_with_its_name(self):
        def change(runs):
            run = next(r for r in runs if r["program"] == "durable_bench")
            run["output"]["rows"] = [row for row in run["output"]["rows"] if row["name"] != "raw schedule"]
        with self.assertRaisesRegex(ReportError, "durable_bench --pending 1000: .*raw schedule"):
            durable_figures(change)

    def test_of_one_store_need_no_figures_of_the_other(self):
        page = self.page(lambda runs: runs.__setitem__(slice(None), [r for r in runs if "postgres" not in r["command"]]))
        self.assertNotIn("PostgreSQL", page)
        self.assertIn("\n## SQLite\n", page)

    def test_have_as_many_cells_in_each_row_as_in_its_head(self):
        assert_full_rows(self, self.page())

    def test_are_measured_on_a_disk_and_not_pinned(self):
        calls = []

        class Programs:
            peers = "peers"

            def disk(self):
                return contextlib.nullcontext(("folder", "ext4"))

            def run(self, *command, **options):
                calls.append((command, options))

        list(plan.measure_durable(plan.FULL.durable, Programs()))
        rows = [(command, o) for command, o in calls if "pending" in o]
        self.assertEqual([o["pending"] for _, o in rows], [1000, 10_000, 100_000, 10**6])
        for command, options in rows:
            self.assertEqual(command[:3], ("durable_bench", "--pending", str(options["pending"])))
        on_postgres = [(command, o) for command, o in calls if "nodes" in o]
        self.assertEqual({o["nodes"] for _, o in on_postgres}, {1, 2, 3})
        for command, options in on_postgres:
            self.assertEqual(command[:5], ("durable_bench", "--store", "postgres", "--nodes", str(options["nodes"])))
        self.assertEqual(len({o["name"] for _, o in calls}), len(calls))
        for command, options in calls:
            self.assertEqual((options["folder"], options["filesystem"], options["pinned"]), ("folder", "ext4", False))
            self.assertEqual("--peers" in command, "peers" in command)

    def test_are_given_a_folder_in_the_build_that_is_removed(self):
        with tempfile.TemporaryDirectory() as build:
            at = programs.Programs(pathlib.Path(build) / "bench", 0)
            with unittest.mock.patch.object(programs.subprocess, "run") as found:
                found.return_value.stdout = "ext4\n"
                with at.disk() as (folder, filesystem):
                    self.assertEqual(pathlib.Path(folder).parent, pathlib.Path(build))
                    self.assertEqual(filesystem, "ext4")
                self.assertEqual(list(pathlib.Path(build).iterdir()), [])
                found.return_value.stdout = "tmpfs\n"
                with self.assertRaisesRegex(ReportError, "is on tmpfs"), at.disk():
                    pass


class DurableTasksOnPostgresql(unittest.TestCase):
    def section(self, change=lambda runs: None):
        return durable.write(durable_figures(change), PLOTS, "benchmarks-durable").split("\n## PostgreSQL\n")[1]

    def test_have_rates_by_the_number_of_nodes(self):
        self.assertIn("| 1 | 40,000 | 30,000 | 0.75x | 50,000 | 60,000 | 1.2x | 10,000 | 9,000 | 0.90x |", self.section())
        self.assertIn("| 2 | 80,000 | 60,000 | 0.75x |", self.section())

    def test_have_lateness_by_starts_per_second(self):
        self.assertIn("| nodes | 1,000/s p50 | 1,000/s p99 | 2,500/s p50 | 2,500/s p99 | one tick | recovery |", self.section())
        self.assertIn("| 2 | 2.00 | 3.00 | 1.50 | 4.00 | 50.0 | – |", self.section())

    def test_have_the_bounds_of_a_cluster(self):
        self.assertIn("| takeover, lease 1 s | 1.50 | 2.00 | s |", self.section())
        self.assertIn("| load page, p99 | 4.50 | – | ms |", self.section())

    def test_stand_beside_peers_and_their_settings(self):
        self.assertIn("| tickwheel | – | 30,000 | 9,000 | 1.00 | 3.00 | 1.50 | 4.00 |", self.section())
        self.assertIn("| bullmq always | 7,000 | 5,500 | 6,000 | 8.00 | 90.0 | – | – |", self.section())
        self.assertIn("- *postgresql*: Debian's defaults.", self.section())

    def test_without_a_rate_end_the_report_with_its_name(self):
        def change(runs):
            run = next(r for r in runs if r.get("store") == "postgres")
            run["output"]["rows"] = [row for row in run["output"]["rows"] if row["name"] != "raw cancel"]
        with self.assertRaisesRegex(ReportError, "--store postgres --nodes 1: not in the report: cancel"):
            durable_figures(change)


class Template(unittest.TestCase):
    def test_replaces_names_by_values(self):
        self.assertEqual(template.fill("@{a b} and @{c}", {"a b": "1", "c": "2\n"}, ()), "1 and 2\n")

    def test_keeps_a_line_only_if_its_condition_holds(self):
        self.assertEqual(template.fill("@[x] - one\n@[y] - two", {}, {"y"}), "- two\n")

    def test_names_a_value_that_is_missing(self):
        with self.assertRaisesRegex(ReportError, "no value other"):
            template.fill("@{other}", {}, ())

    def test_uses_every_value_of_the_page(self):
        page = document.Page(figures(), PLOTS, "benchmarks")
        prose = template.PROSE.read_text()
        self.assertEqual([name for name in page.values() if f"@{{{name}}}" not in prose], [])
        page = durable.DurablePage(durable_figures(), PLOTS, "benchmarks-durable")
        prose = durable.PROSE.read_text()
        self.assertEqual([name for name in page.values() if f"@{{{name}}}" not in prose], [])

    def test_has_a_line_for_each_subject(self):
        prose = template.PROSE.read_text()
        self.assertEqual([s for s in SUBJECTS if f"@[subject {s}] " not in prose], [])


class Numbers(unittest.TestCase):
    def test_have_three_digits_or_all_before_the_point(self):
        written = [document.number(v) for v in (0.123, 9.949, 9.95, 99.44, 99.5, 1234.5, float("nan"))]
        self.assertEqual(written, ["0.12", "9.95", "9.9", "99.4", "100", "1,234", "–"])


class Plan(unittest.TestCase):
    NAMES = [f"{w}/{s}/{n}" for w in ("rearm", "rearm_fenced", "floor") for s in ("wheel", "wheel_hashed", "asio")
             for n in (1000, 10_000, 100_000, 10**6, 10**7)] + ["sparse/wheel/1", "floor/fence/1"]

    def test_of_ten_million_takes_the_main_subjects_alone(self):
        self.assertEqual(plan.cells(self.NAMES, plan.FULL)["rearm", 10**7], ["wheel"])
        self.assertIn("asio", plan.cells(self.NAMES, plan.FULL)["rearm", 10**6])

    def test_leaves_out_subjects_that_take_too_long(self):
        names = [f"{w}/{s}/{n}" for w in ("arm", "touch_30s") for s in ("wheel", "plain_hashed") for n in (10_000, 100_000, 10**6)]
        chosen = plan.cells(names, plan.FULL)
        self.assertEqual([chosen["arm", n] for n in (100_000, 10**6)], [["wheel", "plain_hashed"], ["wheel"]])
        self.assertEqual([chosen["touch_30s", n] for n in (10_000, 100_000)], [["wheel", "plain_hashed"], ["wheel"]])

    def test_has_every_workload_when_quick(self):
        self.assertEqual({w for w, _ in plan.cells(self.NAMES, plan.QUICK)}, {"rearm", "rearm_fenced", "floor", "sparse"})

    def test_has_the_floor_at_each_n(self):
        self.assertEqual([n for w, n in plan.cells(self.NAMES, plan.FULL) if w == "floor"], [*plan.FULL.sizes, 1])

    def test_measures_each_thing_at_least_five_times(self):
        self.assertGreaterEqual(plan.FULL.repetitions, 5)
        for options in (plan.FULL.latency, plan.FULL.burst, plan.FULL.echo, plan.FULL.loops):
            self.assertGreaterEqual(int(options[options.index("--repetitions") + 1]), 5)

    def measured(self, parts, missing_for_netty=None):
        """The programs that run, and what is said."""
        names = [f"rearm/{s}/1000" for s in ("wheel", "libuv")]
        ran = []

        class Programs:
            peers = "peers"

            def benchmarks(self, program):
                return names

            def disk(self):
                return contextlib.nullcontext(("folder", "ext4"))

            def missing_for_netty(self):
                return missing_for_netty

            def run(self, program, *options, **how):
                ran.append(program)
                return {"program": program}

            def netty(self, *options, **how):
                return self.run("netty")

            def google(self, program, *options, **how):
                return self.run(program)

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            list(plan.measure(plan.FULL, Programs(), parts))
        return ran, said.getvalue()

    def test_measures_only_the_parts_that_are_asked_for(self):
        ran, said = self.measured(["loops", "worker"])
        self.assertEqual(set(ran), {"loops_bench", "worker_bench", "netty"})
        self.assertIn("dev: bench: loops takes about ", said)
        self.assertNotIn("wheel takes", said)

    def test_has_all_programs_in_some_part(self):
        ran, _ = self.measured(None)
        self.assertEqual(set(ran), {program for part in plan.PARTS.values() for program in part.programs})

    def test_interleaves_netty_and_ours(self):
        ran, _ = self.measured(["worker"])
        self.assertEqual(ran[:6], ["worker_bench", "netty", "netty"] * 2)

    def test_skips_with_one_line_each_peer_that_is_not_installed(self):
        ran, said = self.measured(["worker", "wheel"], missing_for_netty="missing: libnetty-java")
        self.assertNotIn("netty", ran)
        self.assertIn("dev: bench: Netty is skipped; missing: libnetty-java; ./dev bench --peers installs it\n", said)
        self.assertIn("dev: bench: btree is skipped; missing: libabsl-dev; ./dev bench --peers installs it\n", said)

    def test_measures_the_largest_n_in_the_first_repetition_only(self):
        asked = []

        class Programs:
            def benchmarks(self, program):
                return ["rearm/wheel/1000", "rearm/wheel/10000000", "sparse/wheel/1"]

            def google(self, program, pattern, *options, repetition):
                asked.append((pattern.split("/")[-1], repetition))

        with contextlib.redirect_stdout(io.StringIO()):
            list(plan.measure_wheel(plan.FULL, Programs()))
        self.assertEqual([r for n, r in asked if n == "10000000$"], [0])
        self.assertEqual([r for n, r in asked if n == "1000$"], list(range(plan.FULL.repetitions)))
        self.assertEqual([r for n, r in asked if n == "1$"], list(range(plan.FULL.repetitions)))

    def test_asks_for_a_cell_alone(self):
        self.assertEqual(plan.pattern("arm", ["wheel", "timer"], 1000), "^arm/(wheel|timer)/1000$")


class CommandLine(unittest.TestCase):
    def run_with(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = main()(list(arguments))
            except SystemExit as end:
                code = end.code
        return code, said.getvalue()

    def assert_one_line(self, said, what):
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn(what, said)

    def test_answers_what_it_does_not_know_with_one_line(self):
        for wrong in (["--fast"], ["--core", "x"], ["--report-only"], ["--quick", "--report-only", "a"], ["--durable", "x"],
                      ["--durable", "--core", "0"], ["extra"], ["--parts"], ["--parts", "x"], ["--parts", "wheel", "--quick"],
                      ["--readme"], ["--readme", "a", "--core", "0"]):
            with self.subTest(wrong):
                code, said = self.run_with(*wrong)
                self.assertEqual(code, 2)
                self.assert_one_line(said, "dev: bench: ")

    def measured(self, report, folder, options, measure):
        """The runs in the file that `report` has written of `measure`, which may be interrupted."""
        with unittest.mock.patch.multiple(report, root=pathlib.Path(folder)), \
                unittest.mock.patch.object(report.machine, "describe", lambda *_: {"date": "today", "commit": "0123"}), \
                unittest.mock.patch.object(report.programs.Programs, "build", lambda *_: None), \
                unittest.mock.patch.object(report.plan, "measure", measure), contextlib.suppress(KeyboardInterrupt):
            report.measure(report.parse(options))
        return json.loads((pathlib.Path(folder) / "build/bench/parts.json").read_text())["runs"]

    def test_keeps_the_runs_of_other_parts_and_those_before_an_interruption(self):
        def all_parts(*_):
            yield from ({"program": p, "seconds": 1} for p in ("loops_bench", "worker_bench", "netty", "wheel_bench"))

        def interrupted(*_):
            yield {"program": "worker_bench", "seconds": 2}
            raise KeyboardInterrupt

        report = program()
        with tempfile.TemporaryDirectory() as folder:
            self.measured(report, folder, ["--parts", "loops", "worker", "wheel"], all_parts)
            kept = self.measured(report, folder, ["--parts", "worker"], interrupted)
        self.assertEqual([(r["program"], r["seconds"]) for r in kept], [("loops_bench", 1), ("wheel_bench", 1), ("worker_bench", 2)])
        self.assertEqual({r["commit"] for r in kept}, {"0123"})

    def test_prints_the_table_of_the_readme(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(main()(["--readme", str(here / "report.json")]), 0)
        self.assertEqual(said.getvalue(), document.Page(figures(), {}, "").readme())

    def test_answers_a_file_that_is_not_there_with_one_line(self):
        code, said = self.run_with("--report-only", "/nowhere/at/all.json")
        self.assertEqual(code, 1)
        self.assert_one_line(said, "/nowhere/at/all.json")

    def test_answers_a_file_that_is_no_report_with_one_line(self):
        for content in ("", "{}", "[]", '{"context": {}, "runs": []}', '{"context": {"plan": {"name": "full"}}, "runs": [1]}'):
            with self.subTest(content), tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(content)
                file.flush()
                code, said = self.run_with("--report-only", file.name)
                self.assertEqual(code, 1)
                self.assert_one_line(said, "is no report")


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "there is no matplotlib")
class Plots(unittest.TestCase):
    def test_are_the_same_for_the_same_figures_small_and_without_a_date(self):
        import plots
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            names = plots.draw_all(figures(), pathlib.Path(one))
            plots.draw_all(figures(), pathlib.Path(other))
            names.update(plots.draw_durable(durable_figures(), pathlib.Path(one)))
            plots.draw_durable(durable_figures(), pathlib.Path(other))
            self.assertLessEqual({"rearm", "touch", "fire", "latency", "echo", "durable"}, names.keys())
            for name in names.values():
                drawn = (pathlib.Path(one) / name).read_bytes()
                self.assertEqual(drawn, (pathlib.Path(other) / name).read_bytes(), name)
                self.assertLess(len(drawn), 150_000, name)
                self.assertNotIn(b"<dc:date>", drawn)


if __name__ == "__main__":
    unittest.main()
