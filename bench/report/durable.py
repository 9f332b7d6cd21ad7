"""The figures and the page of durable tasks."""
import re

import template
from document import code, folded, milliseconds, minutes, number, table, times
from errors import ReportError

PROSE = template.PROSE.with_name("benchmarks-durable.md.in")
OPERATIONS = ("schedule", "cancel", "start+finish")  # "raw " before the name: the same without a scheduler
TIMES = ("fsync", "lateness 2500", "one tick", "recovery", "callbacks")
VERBS = ("load", "begin", "finish")


class DurableFigures:
    """Rows of durable_bench by name. A report need not have all runs: a table whose run is missing is left out."""

    def __init__(self, context, runs):
        self.context = context
        self.quick = context["plan"]["name"] == "quick"
        self.runs = [run for run in runs if run["program"] == "durable_bench"]
        self.sqlite = {}  # of the runs with all of OPERATIONS and TIMES, by the number of pending tasks
        self.bounds = []  # rows of the other runs on SQLite
        self.postgres = {}  # by the number of nodes
        self.notes = {}
        for run in self.runs:
            self._take(run)
        self._check()

    def _take(self, run):
        rows = {row["name"]: row for row in run["output"]["rows"]}
        if run.get("store") == "postgres":
            self.postgres.setdefault(run["nodes"], {}).update(rows)
            self.notes.update(run["output"]["notes"])
        elif "pending" in run:
            self.sqlite[run["pending"]] = rows
        else:
            self.bounds += [row for row in rows.values() if row["name"] != "fsync"]

    def _check(self):
        if not self.runs:
            raise ReportError("not in the report: durable_bench")
        wanted = [prefix + name for name in OPERATIONS for prefix in ("raw ", "")] + [*TIMES]
        for pending, rows in self.sqlite.items():
            if missing := [name for name in wanted if name not in rows]:
                raise ReportError(f"durable_bench --pending {pending}: not in the report: {', '.join(missing)}")
        for nodes, rows in self.postgres.items():
            if missing := [name for name in OPERATIONS if not {name, "raw " + name, name + " / raw"} <= rows.keys()]:
                raise ReportError(f"durable_bench --store postgres --nodes {nodes}: not in the report: {', '.join(missing)}")

    def sizes(self):
        """The numbers of pending tasks on SQLite, ascending."""
        return sorted(self.sqlite)

    def rate(self, name, pending):
        """Operations per second."""
        return self.sqlite[pending][name]["per_second"]

    def lateness_rates(self):
        """The starts per second at which lateness was measured on PostgreSQL, ascending."""
        names = {name for rows in self.postgres.values() for name in rows}
        return sorted(int(name.removeprefix("lateness ")) for name in names if re.fullmatch(r"lateness \d+", name))


def write(figures, plots, folder):
    """The whole page, in Markdown. `plots`: the plots' file names by what they show, in `folder`."""
    page = DurablePage(figures, plots, folder)
    return template.fill(PROSE.read_text(), page.values(), page.conditions())


class DurablePage:
    def __init__(self, figures, plots, folder):
        self.figures = figures
        self.plots = plots
        self.folder = folder

    def values(self):
        """What the prose names, by name."""
        f, c = self.figures, self.figures.context
        return {
            "command": "./dev bench --quick" if f.quick else "./dev bench --durable",
            "duration": minutes(round(sum(run["seconds"] for run in f.runs))), "machine": self.machine(),
            "cores": str(c["cores"]), "filesystem": ", ".join(sorted({run["filesystem"] for run in f.runs})),
            "plot": f"![Operations per second on durable tasks, over pending tasks]({self.folder}/{self.plots['durable']})\n"
                    if "durable" in self.plots else "",
            "rates": self.rates(), "times": self.times(), "bounds": self.bounds(), "verbs": self.verbs(),
            "pending": f"{max((row['pending'] for rows in f.postgres.values() for row in rows.values()), default=0):,}",
            "postgres rates": self.postgres_rates(), "postgres lateness": self.postgres_lateness(),
            "postgres cluster": self.postgres_cluster(), "peers": self.peers(), "postgres notes": self.postgres_notes(),
            "runs": self.runs(),
        }

    def conditions(self):
        """Which lines of the prose are kept."""
        f = self.figures
        found = {"quick": f.quick, "sqlite": f.sqlite, "bounds": self.bound_rows(), "verbs": self.verb_rows(),
                 "postgres": f.postgres, "cluster": self.cluster_rows(), "peers": len(self.peer_subjects()) > 1}
        return {name for name, holds in found.items() if holds}

    def machine(self):
        c = self.figures.context
        rows = {
            "processor": f"{c['cpu']} ({c['cpu_model']}){', of a virtual machine' if c['virtual'] else ''}, {c['cores']} cores",
            "system": f"{c['kernel']}, {c['libc']}",
            "compiler": c["compiler"],
            "flags": code(c["flags"]),
            "libraries": ", ".join(f"{name} {version}" for name, version in c["libraries"].items()) + f", malloc: {c['malloc']}",
        }
        return "\n".join(f"| {name} | {what} |" for name, what in rows.items())

    def runs(self):
        """Each run, because they may have been measured at several times."""
        rows = [[run.get("date", self.figures.context["date"]), run.get("commit", self.figures.context["commit"]),
                 f"{run['seconds']:.0f}", code(run["command"])] for run in self.figures.runs]
        return folded("Date, commit, seconds and command of each run", table(["date", "commit", "seconds", "command"], rows))

    # --- SQLite

    def rates(self):
        f = self.figures
        rows = []
        for pending in f.sizes():
            cells = []
            for name in OPERATIONS:
                raw, ours = f.rate("raw " + name, pending), f.rate(name, pending)
                cells += [number(raw), number(ours), times(ours / raw)]
            rows.append([f"{pending:,}", *cells])
        return table(["pending", *(head for name in OPERATIONS for head in ("raw " + name, name, "ratio"))], rows)

    def times(self):
        columns = {
            "fsync p50": ("fsync", "p50"), "fsync p99": ("fsync", "p99"),
            "lateness p50": ("lateness 2500", "p50"), "lateness p99": ("lateness 2500", "p99"),
            "one tick": ("one tick", "max"), "recovery": ("recovery", "max"),
            "iteration p99": ("callbacks", "p99"), "longest iteration": ("callbacks", "max"),
        }
        rows = [[f"{pending:,}", *(milliseconds(self.figures.sqlite[pending][name], which) for name, which in columns.values())]
                for pending in self.figures.sizes()]
        return table(["pending", *columns], rows)

    def bound_rows(self):
        """Of one figure and its bound, and the times of the other runs."""
        lines = []
        for row in self.figures.bounds:
            if "bound" in row:
                lines.append([row["name"], f"{row['pending']:,}", number(row["value"]), number(row["bound"]), row["unit"]])
            elif row["name"] == "one tick":
                lines.append([row["name"], f"{row['pending']:,}", number(row["max_us"] / 1000), "250", "ms"])
            elif row["name"] == "callbacks":
                lines += [[f"CPU time of an iteration, {which}", f"{row['pending']:,}", number(row[key] / 1000), bound, "ms"]
                          for which, key, bound in (("p99", "p99_us", "–"), ("longest", "max_us", "1"))]
            elif row["name"].startswith("lateness "):
                lines += [[f"{row['name']}, {p}", f"{row['pending']:,}", milliseconds(row, p), "–", "ms"] for p in ("p50", "p99")]
        return lines

    def bounds(self):
        return table(["", "pending", "measured", "at most", "unit"], self.bound_rows())

    def verb_rows(self):
        return [[row["name"], f"{row['pending']:,}", number(row["per_second"])] for row in self.figures.bounds
                if row["name"] in VERBS]

    def verbs(self):
        return table(["verb", "pending", "tasks per second"], self.verb_rows())

    # --- PostgreSQL

    def postgres_rates(self):
        rows = []
        for nodes, found in sorted(self.figures.postgres.items()):
            cells = []
            for name in OPERATIONS:
                cells += [number(found["raw " + name]["per_second"]), number(found[name]["per_second"]),
                          times(found[name + " / raw"]["ratio"])]
            rows.append([str(nodes), *cells])
        return table(["nodes", *(head for name in OPERATIONS for head in ("raw " + name, name, "ratio"))], rows)

    def postgres_lateness(self):
        f = self.figures
        rows = []
        for nodes, found in sorted(f.postgres.items()):
            cells = [milliseconds(found.get(f"lateness {rate}"), p) for rate in f.lateness_rates() for p in ("p50", "p99")]
            rows.append([str(nodes), *cells, milliseconds(found.get("one tick"), "max"), milliseconds(found.get("recovery"), "max")])
        heads = [f"{rate:,}/s {p}" for rate in f.lateness_rates() for p in ("p50", "p99")]
        return table(["nodes", *heads, "one tick", "recovery"], rows)

    def cluster_rows(self):
        rows = [row for found in self.figures.postgres.values() for row in found.values()]
        lines = [[row["name"], number(row["value"]), number(row["bound"]), row["unit"]] for row in rows if "bound" in row]
        lines += [[f"{row['name']}, {p}", number(row[p + "_us"] / 1000), "–", "ms"] for row in rows for p in ("p50", "p99")
                  if row["name"] in ("load page", "lateness without snapshot", "lateness with snapshot")]
        return lines

    def postgres_cluster(self):
        return table(["", "measured", "at most", "unit"], self.cluster_rows())

    def peer_subjects(self):
        """Our node, and each peer with each of its settings: the names of their rows."""
        # a task of ours always has an id
        subjects = {"tickwheel": ("", "schedule", "start+finish", "lateness {}")}
        for name in self.figures.postgres.get(1, {}):
            if name.endswith(": schedule"):
                peer = name.removesuffix("schedule")
                subjects[peer.removesuffix(": ")] = (name, name + " with ids", peer + "start", peer + "lateness {}")
        return subjects

    def peers(self):
        f = self.figures
        found = f.postgres.get(1, {})
        rows = []
        for subject, (*rates, late) in self.peer_subjects().items():
            cells = [milliseconds(found.get(late.format(rate)), p) for rate in f.lateness_rates() for p in ("p50", "p99")]
            rows.append([subject, *(number(found.get(name, {}).get("per_second")) for name in rates), *cells])
        heads = [f"{rate:,}/s {p}" for rate in f.lateness_rates() for p in ("p50", "p99")]
        return table(["", "schedule", "with ids", "start", *heads], rows)

    def postgres_notes(self):
        return "\n".join(f"- *{name}*: {text}." for name, text in self.figures.notes.items())
