"""What the runs come to: medians, spreads, ratios."""
import collections
import dataclasses
import math
import re
import statistics

from errors import ReportError

# in the order of the tables
OURS = ("wheel", "wheel_hashed", "timer_at", "timer", "timer_slack")
PEERS = ("libuv", "libevent", "libevent_common", "libev", "asio", "multimap", "priority_queue")
SUBJECTS = OURS + PEERS
FLOORS = ("store", "store_each", "update", "array", "chase", "store_fenced")
WORKLOADS = ("rearm", "arm_cancel", "touch", "arm", "fire", "lifecycle", "pause", "wait", "sparse")
FLOOR = "floor"  # a workload without timers, whose subjects are FLOORS
FENCED = "_fenced"  # behind the name of a workload
DURABLE = ("schedule", "cancel", "start+finish")  # operations of durable_bench; "raw " before the name: the same on bare SQLite
DURABLE_TIMES = ("fsync", "lateness 2500", "one tick", "recovery", "callbacks")


@dataclasses.dataclass(frozen=True)
class Sample:
    """What repeated measurements of one thing have in common."""
    values: tuple

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        return min(self.values), max(self.values)

    @property
    def count(self):
        return len(self.values)


class Figures:
    """Requires every part of the report; what is missing, or came out wrong, is a ReportError."""

    def __init__(self, context, runs):
        self.context = context
        self.quick = context["plan"]["name"] == "quick"
        self.versions = {}
        self._counters = collections.defaultdict(lambda: collections.defaultdict(list))
        self._remote = collections.defaultdict(lambda: collections.defaultdict(list))
        self.latency, self.burst, self.cost, self.echo = [], [], {}, {}
        self.durable, self.postgres, self.postgres_notes, self.filesystem = {}, {}, {}, None
        for run in runs:
            self._take(run)
        self._check()

    def _take(self, run):
        program, output = run["program"], run["output"]
        if program == "wheel_bench":
            self.versions.update(output["context"])
            self._take_benchmarks(run, self._counters)
        elif program == "remote_bench":
            self._take_benchmarks(run, self._remote)
        elif program == "latency_bench":
            self.latency += output["subjects"]
        elif program == "burst_bench":
            self.burst += output["rows"]
        elif program == "echo_bench":
            self.echo[run["burst"]] = output["rows"]
        elif program == "durable_bench":
            if run.get("store") == "postgres":
                self._take_postgres(run["nodes"], output)
            else:
                self._take_durable(run["pending"], output["rows"])
            self.filesystem = run["filesystem"]
        elif program == "cost_model":
            self.cost.update({(r["workload"], r["subject"], r["n"]): r for r in output["rows"]})
        else:
            raise ReportError(f"unknown program {program}; a report has none of its runs")

    @staticmethod
    def _take_benchmarks(run, into):
        checksums = {}
        for b in run["output"]["benchmarks"]:
            name = b["name"].removesuffix("/real_time")
            if b.get("error_occurred"):
                raise ReportError(f"{name}: {b['error_message']}")
            workload, subject, n = name.split("/")
            if "checksum" in b:
                first, checksum = checksums.setdefault((workload, n), (subject, b["checksum"]))
                if checksum != b["checksum"]:
                    raise ReportError(f"{name}: its checksum is {b['checksum']:.0f}, {first}'s is {checksum:.0f}")
            for key, value in b.items():
                if isinstance(value, (int, float)):
                    into[workload, subject, int(n)][key].append(value)

    def _take_durable(self, pending, rows):
        """Rows by name. Reports from before durable_bench have no run of it."""
        self.durable[pending] = {row["name"]: row for row in rows}
        wanted = [prefix + name for name in DURABLE for prefix in ("raw ", "")] + [*DURABLE_TIMES]
        missing = [name for name in wanted if name not in self.durable[pending]]
        if missing:
            raise ReportError(f"durable_bench --pending {pending}: not in the report: {', '.join(missing)}")

    def _take_postgres(self, nodes, output):
        """Rows by name. Some parts are measured with one node only, and peers may be missing."""
        self.postgres[nodes] = {row["name"]: row for row in output["rows"]}
        self.postgres_notes.update(output["notes"])
        missing = [name for name in DURABLE if not {name, "raw " + name, name + " / raw"} <= self.postgres[nodes].keys()]
        if missing:
            raise ReportError(f"durable_bench --store postgres --nodes {nodes}: not in the report: {', '.join(missing)}")

    def _check(self):
        missing = [name for name, part in [
            ("wheel_bench", self._counters), ("its floor", self.sizes(FLOOR)), ("its fenced workloads", self.fenced()),
            ("cost_model", self.cost), ("latency_bench", self.latency), ("burst_bench", self.burst), ("echo_bench", self.echo),
            ("remote_bench", self._remote)] if not part]
        missing += [w for w in WORKLOADS if not self.sizes(w)]
        if missing:
            raise ReportError(f"not in the report: {', '.join(missing)}")

    # --- of wheel_bench

    def sizes(self, workload):
        """Ascending; of the floor without that of the fence, which visits nothing."""
        return sorted({n for w, _, n in self._counters if w == workload and (w != FLOOR or n > 1)})

    def subjects(self, workload, order=SUBJECTS):
        found = {s for w, s, n in self._counters if w == workload and n in self.sizes(w)}
        return [s for s in order if s in found] + sorted(found.difference(order))

    def fenced(self):
        return [w for w in WORKLOADS if self.sizes(w + FENCED)]

    def ns(self, workload, subject, n):
        """Nanoseconds an item, a Sample; None where it was not measured."""
        seconds = self.counter(workload, subject, n, "per_item")
        return seconds and Sample(tuple(1e9 * v for v in seconds.values))

    def counter(self, workload, subject, n, name):
        values = self._counters.get((workload, subject, n), {}).get(name)
        return Sample(tuple(values)) if values else None

    def ratio(self, workload, subject, n, to):
        """How many times longer than `to` it takes: the medians' ratio; NaN where one is missing."""
        one, other = self.ns(workload, subject, n), self.ns(workload, to, n)
        return one.median / other.median if one and other else math.nan

    # --- of durable_bench

    def durable_sizes(self):
        """The numbers of pending tasks, ascending."""
        return sorted(self.durable)

    def durable_rate(self, name, pending):
        """Operations per second."""
        return self.durable[pending][name]["per_second"]

    def durable_ms(self, name, pending, percentile):
        """Milliseconds; `percentile` is p50, p99 or max."""
        return self.durable[pending][name][percentile + "_us"] / 1000

    def lateness_rates(self):
        """The starts per second at which lateness was measured on PostgreSQL, ascending."""
        names = {name for rows in self.postgres.values() for name in rows}
        return sorted(int(name.removeprefix("lateness ")) for name in names if re.fullmatch(r"lateness \d+", name))

    # --- of remote_bench

    def remote(self):
        return list(self._remote)

    def remote_counter(self, key, name):
        return Sample(tuple(self._remote[key][name]))
