"""What the runs come to: medians, spreads, ratios."""
import collections
import dataclasses
import math
import statistics

from errors import ReportError

# in the order of the tables
OURS = ("wheel", "wheel_polled", "wheel_hashed", "timer_at", "timer", "timer_slack", "timer_split", "timer_c")
PEERS = ("libuv", "libevent", "libevent_common", "libev", "asio", "multimap", "priority_queue", "btree", "plain_hashed",
         "plain_hierarchical")
LOOPS = PEERS[:5]  # the others are told the time
SUBJECTS = OURS + PEERS
FLOORS = ("store", "store_each", "update", "array", "chase", "store_fenced")
WORKLOADS = ("rearm", "arm_cancel", "request", "touch", "touch_30s", "arm", "fire", "lifecycle", "pause", "wait", "sparse")
FLOOR = "floor"  # a workload without timers, whose subjects are FLOORS
FENCED = "_fenced"  # behind the name of a workload


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
        self._worker = collections.defaultdict(lambda: collections.defaultdict(list))
        self.latency, self.burst, self.cost, self.echo, self.loops = [], [], {}, {}, []
        self.programs = {run["program"] for run in runs}
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
        elif program == "loops_bench":
            self.loops += output["rows"]
        elif program in ("worker_bench", "netty"):
            self._take_worker(output)
        elif program == "cost_model":
            self.cost.update({(r["workload"], r["subject"], r["n"]): r for r in output["rows"]})
        elif program != "durable_bench":  # durable.py has those
            raise ReportError(f"unknown program {program}; a report has none of its runs")

    def _take_worker(self, output):
        for key in ("netty", "java"):
            if key in output:
                self.versions[key] = output[key]
        for row in output["rows"]:
            for column, value in row.items():
                if isinstance(value, (int, float)):
                    self._worker[row["load"], row["callers"], row["name"]][column].append(value)

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

    def _check(self):
        missing = [name for name, part in [
            ("wheel_bench", self._counters), ("its floor", self.sizes(FLOOR)), ("its fenced workloads", self.fenced()),
            ("cost_model", self.cost), ("latency_bench", self.latency), ("burst_bench", self.burst), ("echo_bench", self.echo),
            ("remote_bench", self._remote), *((p, p in self.programs) for p in ("worker_bench", "loops_bench"))]
            if not part]
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

    def faster(self, value, than):
        """The peers that take less than `than`, the fastest first: [(subject, Sample)]. `value(subject)`: a Sample, or None."""
        ours = value(than)
        others = [(subject, value(subject)) for subject in PEERS]
        return sorted(((s, sample) for s, sample in others if ours and sample and sample.median < ours.median),
                      key=lambda found: found[1].median)

    # --- of worker_bench, and of Netty under its loads

    def worker(self):
        return list(self._worker)

    def worker_counter(self, key, name):
        values = self._worker.get(key, {}).get(name)
        return Sample(tuple(values)) if values else None

    # --- of remote_bench

    def remote(self):
        return list(self._remote)

    def remote_counter(self, key, name):
        return Sample(tuple(self._remote[key][name]))
