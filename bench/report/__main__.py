"""The report of the benchmarks: ./dev bench [--quick], --parts for some parts, --durable for durable tasks only, --report-only FILE
for an earlier measurement, or --readme FILE for README's table of it.

    plan.py      the measurements, how often and for how long
    programs.py  runs the benchmark programs, and keeps their output
    machine.py   describes the machine
    figures.py   the results: medians, spreads, ratios
    document.py  the tables
    durable.py   the results and the tables of durable tasks
    template.py  puts the tables into the prose of benchmarks.md.in and benchmarks-durable.md.in
    plots.py     the plots
"""
import argparse
import datetime
import json
import pathlib
import sys

import document
import durable
import machine
import plan
import programs
from errors import ReportError
from figures import Figures

root = pathlib.Path(__file__).resolve().parents[2]


class OneLineParser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"dev: bench: {message}\n")


def parse(arguments):
    parser = OneLineParser(
        prog="./dev bench",
        description="Measures everything, and writes docs/benchmarks.md, docs/benchmarks-durable.md, their plots, and the measurements: "
                    "build/bench/<date>.json.",
        epilog="Write the options of a benchmark program after its name: ./dev bench wheel --benchmark_filter=touch",
        allow_abbrev=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--quick", action="store_true",
                      help="measure fewer N, once each, in about two minutes; writes build/bench/quick.json and quick.md")
    what.add_argument("--report-only", metavar="FILE", type=pathlib.Path,
                      help="render FILE, an earlier measurement, and measure nothing; a quick.json is rendered beside it, others to docs/")
    what.add_argument("--durable", nargs="*", metavar="RUN", choices=[run.name for run in plan.FULL.durable],
                      help="measure durable tasks only: all runs, or these; writes docs/benchmarks-durable.md, and keeps the other runs "
                           "of build/bench/durable.json. The runs: " + ", ".join(run.name for run in plan.FULL.durable))
    what.add_argument("--parts", nargs="+", metavar="PART", choices=list(plan.PARTS),
                      help="measure only these parts, and keep the other ones of build/bench/parts.json; writes docs/benchmarks.md once it "
                           "has all of them. The parts: " +
                           ", ".join(f"{name} ({part.minutes:.0f} min)" for name, part in plan.PARTS.items()))
    what.add_argument("--readme", metavar="FILE", type=pathlib.Path, help="print README's table of FILE, an earlier measurement")
    # tools/bench takes this one itself
    parser.add_argument("--peers", action="store_true",
                        help="first install peers that only the benchmarks need: abseil, a JDK and Netty; a missing one is skipped")
    parser.add_argument("--core", type=int, metavar="N", help="pin the benchmarks to processor N; the last one by default")
    options = parser.parse_args(arguments)
    if options.durable is not None and options.core is not None:
        parser.error("--core cannot be combined with --durable, whose benchmarks are not pinned")
    for name, given in (("--report-only", options.report_only), ("--readme", options.readme)):
        if given and options.core is not None:
            parser.error(f"--core cannot be combined with {name}, which measures nothing")
    return options


def measure(options):
    chosen = plan.QUICK if options.quick else plan.FULL
    build = root / "build/release"
    at = programs.Programs(build / "bench", machine.core(options.core))
    at.build(build)
    before = machine.describe(root, build)
    name = "quick.json" if options.quick else "parts.json" if options.parts else f"{datetime.date.today().isoformat()}.json"
    file = root / "build/bench" / name
    runs = runs_of_others(file, options.parts) if options.parts else []
    for run in plan.measure(chosen, at, options.parts):
        runs.append({**run, "date": before["date"], "commit": before["commit"]})
        context = {**before, "core": at.core, "plan": chosen.describe(), "seconds": round(sum(run["seconds"] for run in runs))}
        write(file, context, runs)
    return file


def write(file, context, runs):
    """Called after each run: a measurement that is interrupted keeps what it has."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({"context": context, "runs": runs}, indent=1) + "\n")
    unfinished.replace(file)


def runs_of_others(file, parts):
    """The runs of this measurement that are not of these parts."""
    replaced = {program for part in parts for program in plan.PARTS[part].programs}
    earlier = json.loads(file.read_text())["runs"] if file.exists() else []
    return [run for run in earlier if run["program"] not in replaced]


def missing_parts(file):
    """The parts of timers that it has no run of."""
    programs_run = {run["program"] for run in json.loads(file.read_text())["runs"]}
    return [name for name, part in plan.PARTS.items() if name != "durable" and not programs_run.intersection(part.programs)]


def measure_durable(names):
    """Measures these runs, or all. The report keeps the earlier figures of the others."""
    build = root / "build/release"
    at = programs.Programs(build / "bench", None)
    at.build(build, "bench/durable_bench")
    before = machine.describe(root, build, "durable_bench")
    file = root / "build/bench/durable.json"
    runs = {run["name"]: run for run in (json.loads(file.read_text())["runs"] if file.exists() else [])}
    for measured in plan.measure_durable([run for run in plan.FULL.durable if run.name in names or not names], at):
        runs[measured["name"]] = {**measured, "date": before["date"], "commit": before["commit"]}
        in_order = [runs[run.name] for run in plan.FULL.durable if run.name in runs]
        write(file, {**before, "plan": plan.FULL.describe(), "seconds": at.seconds()}, in_order)
    return file


def read(file):
    """The figures of timers, and those of durable tasks; None: the file has none of them."""
    try:
        report = json.loads(file.read_text())
        context, runs = report["context"], report["runs"]
        durable_runs = [run for run in runs if run["program"] == "durable_bench"]
        timers = Figures(context, runs) if len(durable_runs) < len(runs) or not runs else None
        return timers, durable.DurableFigures(context, runs) if durable_runs else None
    except OSError as error:
        raise ReportError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{file}: is no report of the benchmarks ({type(error).__name__}: {error})") from None


def render(page, draw, write):
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    page.write_text(write(draw(folder), folder.name))
    print(f"{page.relative_to(root) if page.is_relative_to(root) else page} is written")


def render_all(file):
    timers, tasks = read(file)
    import plots  # it needs matplotlib, which nothing else does

    if timers:
        render(file.with_suffix(".md") if timers.quick else root / "docs/benchmarks.md",
               lambda folder: plots.draw_all(timers, folder), lambda drawn, folder: document.write(timers, drawn, folder))
    if tasks:
        render(file.with_name(file.stem + "-durable.md") if tasks.quick else root / "docs/benchmarks-durable.md",
               lambda folder: plots.draw_durable(tasks, folder), lambda drawn, folder: durable.write(tasks, drawn, folder))


def main(arguments):
    options = parse(arguments)
    try:
        if options.readme:
            timers, _ = read(options.readme)
            if timers is None:
                raise ReportError(f"{options.readme}: has no figures of timers")
            print(document.Page(timers, {}, "").readme(), end="")
            return 0
        if options.report_only:
            file = options.report_only
        elif options.durable is not None:
            file = measure_durable(options.durable)
        else:
            file = measure(options)
            if options.parts and (missing := missing_parts(file)):
                print(f"{file} is written; not measured yet: {', '.join(missing)}")
                return 0
        render_all(file)
    except ReportError as error:
        print(f"dev: bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
