"""What is measured, how often, and for how long."""
import collections
import dataclasses
import re
import time

from figures import FENCED, FLOOR

MILLION = 1_000_000


# for what takes too long with all
MAIN = ("wheel", "timer_at", "timer", "libuv", "libev")
LONG = ("pause", "lifecycle", "arm_cancel")  # workloads that are left out where only MAIN take part


@dataclasses.dataclass(frozen=True)
class DurableRun:
    """A run of durable_bench. `pending`: a row of the tables by pending tasks. `nodes`: on PostgreSQL."""
    name: str
    options: tuple
    pending: int = 0
    nodes: int = 0

    def labels(self):
        labels = {"name": self.name}
        if self.pending:
            labels["pending"] = self.pending
        if self.nodes:
            labels.update(store="postgres", nodes=self.nodes)
        return labels


def sqlite_row(pending, operations, lateness):
    return DurableRun(f"sqlite-{pending}", ("--pending", str(pending), "--operations", str(operations), "--lateness-time", lateness),
                      pending=pending)


def postgres_row(nodes, *options):
    return DurableRun(f"postgres-{nodes}", options, nodes=nodes)


def part(store, name, *options):
    """On SQLite, or on one node of PostgreSQL: measures this part, with a million tasks pending."""
    return DurableRun(f"{store}-{name.replace(' ', '-')}", ("--pending", str(MILLION), *options, "--measure", *name.split("+")),
                      nodes=1 if store == "postgres" else 0)


@dataclasses.dataclass(frozen=True)
class Plan:
    name: str
    sizes: tuple  # of N; workloads that have but one are measured at that
    fenced_sizes: tuple
    subjects: tuple  # those that wheel_bench is asked for; none: all
    largest: dict  # by subject, or workload/subject: the N beyond which it is left out
    main_from: int  # the N from which on only MAIN take part
    repetitions: int  # at most
    minutes: float  # after which nothing of wheel_bench is begun again
    patience: float  # seconds: a benchmark is repeated until its timed part has taken as long
    remote: str  # which benchmarks
    remote_repetitions: int
    bursts: tuple  # messages an iteration of the echo server
    durable: tuple  # of DurableRun
    cost_model: tuple  # options
    latency: tuple
    burst: tuple
    echo: tuple

    def describe(self):
        return {**dataclasses.asdict(self), "main": MAIN, "left_out": LONG}

    def measures(self, workload, subject, n):
        if workload == FLOOR:
            return n == 1 or n in self.sizes
        if workload.endswith(FENCED):
            return n in self.fenced_sizes and subject in MAIN
        if self.subjects and subject not in self.subjects or n > min(self.largest.get(subject, n), self.largest.get(f"{workload}/{subject}", n)):
            return False
        if n >= self.main_from and workload in LONG:
            return False
        return n in self.sizes and (n < self.main_from or subject in MAIN)


FULL = Plan(
    name="full",
    sizes=(1000, 10_000, 100_000, MILLION, 10 * MILLION),
    fenced_sizes=(1000, 100_000, MILLION),
    subjects=(),
    largest={"wheel_hashed": 100_000, "plain_hashed": 100_000, "touch_30s/plain_hashed": 10_000},
    main_from=10 * MILLION,
    repetitions=5,
    minutes=15,
    patience=4,
    remote=".",
    remote_repetitions=3,
    bursts=(1000, 100, 10),
    durable=(
        sqlite_row(1000, 10_000, "10s"), sqlite_row(10_000, 20_000, "10s"), sqlite_row(100_000, 100_000, "10s"),
        sqlite_row(MILLION, 100_000, "60s"),
        part("sqlite", "tick", "--operations", str(MILLION)), part("sqlite", "bulk", "--lateness-time", "20s"),
        part("sqlite", "memory", "--operations", "200000"), part("sqlite", "verbs"),
        *(postgres_row(nodes, "--pending", str(MILLION), "--rates", "1000", "2500", "10000", "--measure", "rates", "lateness", "tick",
                       *(["recovery"] if nodes == 1 else [])) for nodes in (1, 2, 3)),
        part("postgres", "snapshot"), part("postgres", "shares+renewals+takeover"), part("postgres", "load page"),
        part("postgres", "peers", "--rates", "1000", "2500", "10000")),
    latency=("--load", "--repetitions", "2"),
    cost_model=("--connections", "10000"),
    burst=(),
    echo=("--repetitions", "3"),
)

QUICK = Plan(
    name="quick",
    sizes=(1000, 10_000),
    fenced_sizes=(10_000,),
    subjects=("wheel", "timer_at", "timer", "timer_slack", "libuv", "libevent", "libevent_common", "libev", "asio", "multimap", "btree",
              "plain_hashed", "plain_hierarchical"),
    largest={},
    main_from=MILLION,
    repetitions=1,
    minutes=0,
    patience=0,
    remote="^post/",
    remote_repetitions=1,
    bursts=(1000, 10),
    durable=(
        sqlite_row(1000, 2000, "1s"), sqlite_row(10_000, 2000, "1s"),
        *(postgres_row(nodes, "--pending", "10000", "--operations", "4000", "--rounds", "2", "--lateness-time", "1s", "--measure",
                       "rates", "lateness", "tick") for nodes in (1, 2))),
    latency=("--load", "--fires", "2", "--repetitions", "1"),
    cost_model=("--connections", "10000", "--only", "touch/wheel"),
    burst=("--repetitions", "1"),
    echo=("--repetitions", "1", "--rounds", "20", "--counted-rounds", "5"),
)


def cells(names, plan):
    """The benchmarks of wheel_bench that are measured, by workload and N: {(workload, N): [subject, ...]}."""
    known = [(workload, subject, int(n)) for workload, subject, n in (name.split("/") for name in names)]
    sizes = collections.defaultdict(set)
    for workload, _, n in known:
        sizes[workload].add(n)
    chosen = collections.defaultdict(list)
    for workload, subject, n in known:
        if plan.measures(workload, subject, n) or len(sizes[workload]) == 1:
            chosen[workload, n].append(subject)
    return chosen


def pattern(workload, subjects, n):
    return f"^{workload}/({'|'.join(map(re.escape, subjects))})/{n}$"


def measure_wheel(plan, programs):
    """One process a workload and N, with all its subjects, so that these are compared within seconds; and one repetition of all
    before the next, so that an hour that is bad for all is seen as spread."""
    chosen = cells(programs.benchmarks("wheel_bench"), plan)
    end = time.monotonic() + 60 * plan.minutes
    timed = collections.Counter()  # seconds, by benchmark
    took = {}
    runs = []
    for repetition in range(plan.repetitions):
        for (workload, n), subjects in chosen.items():
            if repetition > 0:
                subjects = [s for s in subjects if timed[workload, s, n] < plan.patience]
                if not subjects or time.monotonic() + took[workload, n] > end:
                    continue
            run = programs.google("wheel_bench", pattern(workload, subjects, n), "--benchmark_min_time=0.02",
                                  repetition=repetition)
            runs.append(run)
            took[workload, n] = run["seconds"]
            for b in run["output"]["benchmarks"]:
                subject = b["name"].split("/")[1]
                timed[workload, subject, n] += b["iterations"] * seconds_of(b)
    return runs


def seconds_of(benchmark):
    return benchmark["cpu_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[benchmark["time_unit"]]


def measure_durable(runs, programs):
    """Not pinned, because the stores have threads and servers."""
    with programs.disk() as (folder, filesystem):
        return [programs.run("durable_bench", *(["--store", "postgres", "--nodes", str(run.nodes)] if run.nodes else []),
                             *(["--peers", str(programs.peers)] if "peers" in run.options else []), *run.options,
                             out=["--json", "{}"], pinned=False, folder=folder, filesystem=filesystem,
                             environment={"MIMALLOC_ALLOW_DECOMMIT": "0"}, **run.labels())
                for run in runs]


def measure(plan, programs):
    """All of it: the runs, as programs.run returns them."""
    json_to = ["--json", "{}"]
    # the short ones first: if one fails, little is lost
    runs = [programs.run("cost_model", *plan.cost_model, out=json_to), programs.run("burst_bench", *plan.burst, out=json_to)]
    for burst in plan.bursts:
        runs.append(programs.run("echo_bench", "--burst", str(burst), *plan.echo, out=json_to, burst=burst))
    for repetition in range(plan.remote_repetitions):
        runs.append(programs.google("remote_bench", plan.remote, "--benchmark_min_time=0.03", pinned=False, repetition=repetition))
    runs.append(programs.run("latency_bench", *plan.latency, out=json_to))
    return runs + measure_durable(plan.durable, programs) + measure_wheel(plan, programs)
