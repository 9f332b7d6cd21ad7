"""What is measured, how often, and for how long."""
import collections
import collections.abc
import dataclasses
import re
import time

from figures import FENCED, FLOOR

MILLION = 1_000_000


# for what takes too long with all
MAIN = ("wheel", "timer_at", "timer", "libuv", "libev")
LONG = ("pause", "lifecycle", "arm_cancel")  # workloads that are left out where only MAIN take part
INSTALLED = {"btree": "libabsl-dev"}  # subjects that need a package: ./dev bench --peers installs it


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
    once_from: int  # the N from which on only the first repetition is measured, because it takes minutes
    repetitions: int  # of the wheel, of posts and of timers that other threads arm
    remote: str  # which benchmarks
    bursts: tuple  # messages an iteration of the echo server
    durable: tuple  # of DurableRun
    cost_model: tuple  # options
    latency: tuple
    burst: tuple
    echo: tuple
    loops: tuple
    worker: tuple

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
    once_from=10 * MILLION,
    repetitions=5,
    remote=".",
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
    latency=("--load", "--repetitions", "5"),
    cost_model=("--connections", "10000"),
    burst=("--repetitions", "5"),
    echo=("--repetitions", "5"),
    loops=("--repetitions", "5"),
    worker=(),
)

QUICK = Plan(
    name="quick",
    sizes=(1000, 10_000),
    fenced_sizes=(10_000,),
    subjects=("wheel", "timer_at", "timer", "timer_slack", "libuv", "libevent", "libevent_common", "libev", "asio", "multimap", "btree",
              "plain_hashed", "plain_hierarchical"),
    largest={},
    main_from=MILLION,
    once_from=MILLION,
    repetitions=1,
    remote="^post/",
    bursts=(1000, 10),
    durable=(
        sqlite_row(1000, 2000, "1s"), sqlite_row(10_000, 2000, "1s"),
        *(postgres_row(nodes, "--pending", "10000", "--operations", "4000", "--rounds", "2", "--lateness-time", "1s", "--measure",
                       "rates", "lateness", "tick") for nodes in (1, 2))),
    latency=("--load", "--fires", "2", "--repetitions", "1"),
    cost_model=("--connections", "10000", "--only", "touch/wheel"),
    burst=("--repetitions", "1"),
    echo=("--repetitions", "1", "--rounds", "20", "--counted-rounds", "5"),
    loops=("--repetitions", "1", "--connections", "1000"),
    worker=("--timers", "10000"),
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
    names = programs.benchmarks("wheel_bench")
    for subject, package in INSTALLED.items():
        if not any(name.split("/")[1] == subject for name in names):
            skip(subject, f"missing: {package}")
    chosen = cells(names, plan)
    for repetition in range(plan.repetitions):
        begin = time.monotonic()
        for (workload, n), subjects in chosen.items():
            if repetition > 0 and n >= plan.once_from:
                continue
            yield programs.google("wheel_bench", pattern(workload, subjects, n), "--benchmark_min_time=0.02", repetition=repetition)
        if repetition == 0 and plan.repetitions > 1:
            left = (plan.repetitions - 1) * (time.monotonic() - begin)
            print(f"dev: bench: {plan.repetitions - 1} more repetitions of wheel_bench take at most {left / 60:.0f} min", flush=True)


def skip(what, why):
    print(f"dev: bench: {what} is skipped; {why}; ./dev bench --peers installs it", flush=True)


def measure_durable(runs, programs):
    """Not pinned, because the stores have threads and servers."""
    with programs.disk() as (folder, filesystem):
        for run in runs:
            yield programs.run("durable_bench", *(["--store", "postgres", "--nodes", str(run.nodes)] if run.nodes else []),
                               *(["--peers", str(programs.peers)] if "peers" in run.options else []), *run.options,
                               out=["--json", "{}"], pinned=False, folder=folder, filesystem=filesystem,
                               environment={"MIMALLOC_ALLOW_DECOMMIT": "0"}, **run.labels())


def measure_echo(plan, programs):
    for burst in plan.bursts:
        yield programs.run("echo_bench", "--burst", str(burst), *plan.echo, out=["--json", "{}"], burst=burst)


def measure_remote(plan, programs):
    for repetition in range(plan.repetitions):
        yield programs.google("remote_bench", plan.remote, "--benchmark_min_time=0.03", pinned=False, repetition=repetition)


def measure_worker(plan, programs):
    """Not pinned, because the callers and the worker are threads. Netty's default is a tick of 100 ms; ours is below one."""
    if missing := programs.missing_for_netty():
        skip("Netty", missing)
    for repetition in range(plan.repetitions):
        for callers in ("1", "2"):
            options = ("--callers", callers, *plan.worker)
            yield programs.run("worker_bench", *options, out=["--json", "{}"], pinned=False, repetition=repetition)
            for tick in ("1", "100") if not missing else ():
                yield programs.netty("--tick-ms", tick, *options, repetition=repetition)


def measure(plan, programs, parts=None):
    """Measures these parts, or all of them. Yields each run as it ends, as programs.run returns it."""
    for name, part in PARTS.items():
        if parts and name not in parts:
            continue
        if plan is FULL:
            print(f"dev: bench: {name} takes about {part.minutes:.0f} min", flush=True)
        yield from part.measure(plan, programs)


def single(program, options, **how):
    def measure_once(plan, programs):
        yield programs.run(program, *options(plan), out=["--json", "{}"], **how)
    return measure_once


@dataclasses.dataclass(frozen=True)
class Part:
    """A part that can be measured by itself. `minutes`: how long all of it takes on two cores of 3 GHz."""
    measure: collections.abc.Callable
    programs: tuple
    minutes: float


# the short ones first: if one fails, little is lost
PARTS = {
    "cost_model": Part(single("cost_model", lambda plan: plan.cost_model), ("cost_model",), 8),
    "burst": Part(single("burst_bench", lambda plan: plan.burst), ("burst_bench",), 1),
    "echo": Part(measure_echo, ("echo_bench",), 1),
    "remote": Part(measure_remote, ("remote_bench",), 1),
    "latency": Part(single("latency_bench", lambda plan: plan.latency), ("latency_bench",), 4),
    "loops": Part(single("loops_bench", lambda plan: plan.loops, pinned=False), ("loops_bench",), 1),
    "worker": Part(measure_worker, ("worker_bench", "netty"), 3),
    "durable": Part(lambda plan, programs: measure_durable(plan.durable, programs), ("durable_bench",), 28),
    "wheel": Part(measure_wheel, ("wheel_bench",), 47),
}
