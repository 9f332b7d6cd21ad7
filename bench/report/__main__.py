"""The report of the benchmarks: ./dev bench [--quick], or --report-only FILE for an earlier measurement.

    plan.py      the measurements, how often and for how long
    programs.py  runs the benchmark programs, and keeps their output
    machine.py   describes the machine
    figures.py   the results: medians, spreads, ratios
    document.py  the tables
    template.py  puts them into the prose of benchmarks.md.in
    plots.py     the plots
"""
import argparse
import datetime
import json
import pathlib
import sys

import document
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
        description="Measures everything, and writes docs/benchmarks.md, its plots, and the measurements: build/bench/<date>.json.",
        epilog="Write the options of a benchmark program after its name: ./dev bench wheel --benchmark_filter=touch",
        allow_abbrev=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--quick", action="store_true",
                      help="measure fewer N, once each, in about two minutes; writes build/bench/quick.json and quick.md")
    what.add_argument("--report-only", metavar="FILE", type=pathlib.Path,
                      help="render FILE, an earlier measurement, and measure nothing; a quick.json is rendered beside it, others to docs/")
    parser.add_argument("--core", type=int, metavar="N", help="pin the benchmarks to processor N; the last one by default")
    options = parser.parse_args(arguments)
    if options.report_only and options.core is not None:
        parser.error("--core cannot be combined with --report-only, which measures nothing")
    return options


def measure(options):
    chosen = plan.QUICK if options.quick else plan.FULL
    build = root / "build/release"
    at = programs.Programs(build / "bench", machine.core(options.core))
    at.build(build)
    before = machine.describe(root, build)
    runs = plan.measure(chosen, at)
    context = {**before, "core": at.core, "plan": chosen.describe(), "seconds": at.seconds()}
    file = root / "build/bench" / ("quick.json" if options.quick else f"{datetime.date.today().isoformat()}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"context": context, "runs": runs}, indent=1) + "\n")
    return file


def read(file):
    try:
        report = json.loads(file.read_text())
        return Figures(report["context"], report["runs"])
    except OSError as error:
        raise ReportError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{file}: is no report of the benchmarks ({type(error).__name__}: {error})") from None


def render(figures, page):
    import plots  # it needs matplotlib, which nothing else does

    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    drawn = plots.draw_all(figures, folder)
    page.write_text(document.write(figures, drawn, folder.name))
    print(f"{page.relative_to(root) if page.is_relative_to(root) else page} is written")


def main(arguments):
    options = parse(arguments)
    try:
        file = options.report_only or measure(options)
        figures = read(file)
        render(figures, file.with_suffix(".md") if figures.quick else root / "docs/benchmarks.md")
    except ReportError as error:
        print(f"dev: bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
