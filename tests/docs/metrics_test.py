#!/usr/bin/env python3
"""Each metric that the documentation, an alert or the dashboard names exists, and operating.md has each that exists.

  metrics_test.py ROOT PROGRAM    PROGRAM writes the metrics: metrics.cpp; MESON_EXE_WRAPPER starts it, if that is set
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

NAME = re.compile(r"\btickwheel_(?!durable_)[a-z]\w*")


def samples(text):
    """The names of all samples in the text, and of the metrics that they belong to."""
    metrics = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}, metrics


def expressions(dashboard):
    """Each query of a dashboard, with the title of its panel."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def main():
    root = pathlib.Path(sys.argv[1])
    program = [*shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")), sys.argv[2]]
    text = subprocess.run(program, input="now\n", capture_output=True, text=True, check=True, timeout=60).stdout
    names, metrics = samples(text)
    problems = [] if "tickwheel_timers_pending" in names else ["the program wrote no metrics"]

    operating = root / "docs/operating.md"
    monitoring = root / "docs/monitoring"
    for page in [operating, *sorted(monitoring.glob("*.yml"))]:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            problems += [f"{page.name}:{number}: there is no metric {name}" for name in NAME.findall(line)
                         if name not in names | metrics]
    listed = set(NAME.findall(operating.read_text()))
    problems += [f"operating.md does not name {name}" for name in sorted(metrics)
                 if not {name, name + "_bucket"} & listed]

    dashboard = json.loads((monitoring / "dashboard.json").read_text())
    queries = list(expressions(dashboard))
    for title, query in queries:
        used = NAME.findall(query)
        problems += [f"dashboard.json: {title}: there is no metric {name}" for name in used if name not in names]
        if not used:
            problems.append(f"dashboard.json: {title}: a query names no metric")
    if not queries:
        problems.append("dashboard.json has no query")
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(ids) != len(set(ids)):
        problems.append("dashboard.json: two panels have the same id")

    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
