"""The page: tables of all figures, and the text."""
import math

import text
from figures import FENCED, FLOOR, FLOORS, OURS, SUBJECTS, WORKLOADS, Figures

MILLION = 1_000_000


def write(figures, plots, folder):
    """The whole page, in Markdown. `plots`: the plots' file names by what they show, in `folder`."""
    page = Page(figures, plots, folder)
    parts = [page.head(), page.summary(), page.subjects(), page.workloads(), page.latency(), page.burst(), page.echo(),
             page.remote(), page.cost_model(), page.limits()]
    return "\n".join(parts)


def number(value):
    """Three digits, or all of those before the point."""
    if value is None or math.isnan(value):
        return "–"
    magnitude = abs(value)
    return f"{value:,.0f}" if magnitude >= 99.5 else f"{value:.1f}" if magnitude >= 9.95 else f"{value:.2f}"


def times(ratio):
    return f"{ratio:.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.2f}x"


def table(head, rows):
    """Of cells that are texts; the first column is names, the others figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def folded(title, content):
    return f"<details><summary>{title}</summary>\n\n{content}\n</details>\n"


def code(name):
    return f"`{name}`"


class Page:
    def __init__(self, figures: Figures, plots, folder):
        self.figures = figures
        self.plots = plots
        self.folder = folder
        self.context = figures.context

    def plot(self, what, alt):
        return f"![{alt}]({self.folder}/{self.plots[what]})\n" if what in self.plots else ""

    # --- what it is

    def head(self):
        c, v = self.context, self.figures.versions
        versions = ", ".join(f"{name} {v[key].replace('_', '.')}" for name, key in
                             [("libuv", "libuv"), ("libevent", "libevent"), ("libev", "libev"), ("Boost", "boost")])
        command = "./dev bench --quick" if self.figures.quick else "./dev bench"
        caution = ("**Measured once each, at few N: good for a look, and not to be quoted.**\n\n" if self.figures.quick else "")
        return f"""\
# Benchmarks

Written by `{command}`, which measures all of this and takes {minutes(c['seconds'])}. {c['date']}, commit {c['commit']}.

{caution}| | |
|---|---|
| processor | {c['cpu']} ({c['cpu_model']}){', of a virtual machine' if c['virtual'] else ''}, {c['cores']} cores |
| caches | {caches(v)} |
| system | {c['kernel']}, {c['libc']}, transparent huge pages: {c['huge_pages']} |
| compiler | {c['compiler']} |
| flags | `{c['flags']}` |
| libraries | {versions}, malloc: {c['malloc']} |
| tickwheel | tick {v['tick']}, {v['wheel']}; `wheel_hashed`: {v['wheel_hashed']} |
| pinned to | core {c['core']}, all but remote_bench |

Figures are medians of repetitions, in nanoseconds an operation where nothing else is said. All subjects of a workload and N are
measured one after the other within a process, then the next workload, and all of that again for the next repetition. Each runs the same
operations on the same objects, and must come to the same outcome, or there is no report.
"""

    def summary(self):
        f = self.figures
        n = max(n for n in f.sizes("rearm") if n <= MILLION)
        rows = [(w, n) for w in ("arm_cancel", "touch", "rearm", "arm", "lifecycle", "fire")]
        rows += [("fire", m) for m in (1000, 10_000) if m in f.sizes("fire") and m != n]
        ours = ("wheel", "timer_at", "timer")
        peers = [s for s in ("libuv", "libevent", "libev", "asio", "multimap", "priority_queue") if f.ns("rearm", s, n)]
        lines = []
        for workload, m in rows:
            name = workload if m == n else f"{workload}, N = {m:,}"
            lines.append([f"*{name}*", *(number_of(f.ns(workload, s, m)) for s in ours),
                          *(self.with_ratios(workload, s, m) for s in peers)])
        return f"""\
## In short

{n:,} timers, if not said otherwise; nanoseconds an operation. What users call is `timer_at`, which is `arm_at` by the loop's time stamp, and `timer`, which is
`arm` and reads the clock; `wheel` is the structure beneath. In brackets: how many times as long a peer takes as `wheel`, and as
`timer_at`; below 1 the peer is faster.

{table(['', *map(code, ours), *peers], lines)}"""

    def with_ratios(self, workload, subject, n):
        f = self.figures
        sample = f.ns(workload, subject, n)
        ratios = [f.ratio(workload, subject, n, to) for to in ("wheel", "timer_at")]
        known = [times(r) for r in ratios if not math.isnan(r)]
        return number_of(sample) + (f" ({', '.join(known)})" if sample and known else "")

    def subjects(self):
        measured = {s for w in WORKLOADS for s in self.figures.subjects(w)}
        lines = [f"- {code(s)}: {text.SUBJECTS[s]}" for s in SUBJECTS if s in measured]
        return "## Subjects\n\n" + ";\n".join(lines) + ".\n"

    # --- wheel_bench

    def workloads(self):
        plan = self.context["plan"]
        left_out = (f" From {plan['main_from']:,} on {', '.join(map(code, plan['main']))} alone take part, as the others would"
                    f" take too long, and not in {', '.join(plan['left_out'])}." if any(n >= plan["main_from"] for n in plan["sizes"]) else "")
        floors = ";\n".join(f"- *{k}*: {text.FLOORS[k]}" for k in FLOORS)
        intro = f"""\
## Workloads

Nanoseconds an operation, a table a workload, N from left to right; a peer's ratios to `wheel` and `timer_at` are in brackets.{left_out}
What memory alone takes, nanoseconds an object, is measured in the same run as `floor`, over the same objects in random order:

{floors}.

{self.floor_table()}"""
        return intro + "\n" + "\n".join(self.workload(w) for w in WORKLOADS)

    def floor_table(self):
        f = self.figures
        sizes = f.sizes(FLOOR)
        rows = [[k, *(number_of(f.ns(FLOOR, k, n)) for n in sizes)] for k in f.subjects(FLOOR, FLOORS)]
        return table(["floor", *(f"{n:,}" for n in sizes)], rows)

    def workload(self, workload):
        f = self.figures
        sizes, subjects = f.sizes(workload), f.subjects(workload)
        parts = [f"### {workload}\n", text.WORKLOADS[workload] + "\n"]
        if workload in self.plots:
            parts.append(self.plot(workload, f"Nanoseconds an operation over N, {workload}"))
        if len(sizes) > 1:
            rows = [[code(s), *(self.cell(workload, s, n) for n in sizes)] for s in subjects]
            parts.append(table(["", *(f"{n:,}" for n in sizes)], rows))
            parts.append(folded("Spread: the least and the most, and of how many repetitions", table(
                ["", *(f"{n:,}" for n in sizes)], [[code(s), *(spread(f.ns(workload, s, n)) for n in sizes)] for s in subjects])))
        else:
            (n,) = sizes
            parts.append(f"N = {n:,}; *wakeups*: how often the loop, or who drives the wheel, wakes up for that.\n")
            parts.append(table(["", "ns", "least to most", "wakeups"], [
                [code(s), self.cell(workload, s, n), spread(f.ns(workload, s, n)),
                 number_of(f.counter(workload, s, n, "wakeups"), "{:,.0f}")] for s in subjects]))
        if workload == "pause":
            parts.append(self.pauses(sizes, subjects))
        return "\n".join(parts)

    def cell(self, workload, subject, n):
        return (number_of(self.figures.ns(workload, subject, n)) if subject in OURS
                else self.with_ratios(workload, subject, n))

    def pauses(self, sizes, subjects):
        f = self.figures
        names = ("p999", "p9999", "max")
        rows = [[code(s), *(" / ".join(number_of(f.counter("pause", s, n, c)) for c in names) if f.ns("pause", s, n) else "–"
                            for n in sizes)] for s in subjects]
        return ("How long a tick takes in microseconds, p99.9 / p99.99 / the longest, of the run with the shortest maximum:\n\n"
                + table(["", *(f"{n:,}" for n in sizes)], rows))

    # --- the other programs

    def latency(self):
        rows = [[code(s["name"]), s["condition"], number(s["p50_us"]), number(s["p99_us"]), number(s["max_us"]),
                 f"{s['early']:,} of {s['fired']:,}"] for s in self.figures.latency]
        return f"""\
## Lateness

How late timers are on a live loop, by the true clock, from the delay asked for to the handler, in microseconds: on an idle loop, and on one under
load, which is an I/O handler in each iteration that works for 100 us and arms timers. Who comes before its time is *early*, and 0 late.
`tickwheel` has the default tick, `timerfd` is the same woken by a timerfd at a tick of 66 us; `libevent_precise` reads the exact clock
and has a timerfd. Percentiles are upper bounds, at most 1/8 above.

{self.plot("latency", "How many of the timers have come, by lateness")}
{table(["", "loop", "p50", "p99", "max", "early"], rows)}"""

    def burst(self):
        rows = [[code(r["name"]), number(r["p50_us"]), number(r["p99_us"])] for r in self.figures.burst]
        return f"""\
## A million timers in one tick

What they do to a round trip over TCP on the same loop meanwhile, in microseconds: `none` is without timers, `default` with the bounds that a pass has,
`unbounded` without them.

{table(["", "p50", "p99"], rows)}"""

    def echo(self):
        rows = []
        for burst, modes in sorted(self.figures.echo.items(), reverse=True):
            base = next((m["instructions_per_message"] for m in modes if m["name"] == "none"), math.nan)
            for m in modes:
                more = m["instructions_per_message"] - base
                rows.append([code(m["name"]), f"{burst:,}", number(m["instructions_per_message"]), f"{more:+.1f}",
                             f"{100 * more / base:+.2f} %"])
        return f"""\
## An idle timeout on every connection of an echo server

User-space instructions a message, on a server that checks what it is sent, by how many messages one iteration of its loop handles: without timers,
with an `idle_timeout` touched on every message, and with a `uv_timer_t` restarted on every message.

{self.plot("echo", "Instructions a message that idle timeouts add")}
{table(["", "messages an iteration", "instructions a message", "more", ""], rows)}"""

    def remote(self):
        f = self.figures
        rows = []
        for workload, subject, producers in sorted(f.remote(), key=lambda k: (k[0], k[2], f.remote().index(k))):
            key = workload, subject, producers
            rate = f.remote_counter(key, "items_per_second")
            ours = f.remote_counter((workload, "tickwheel", producers), "items_per_second")
            ratio = "" if subject == "tickwheel" else times(ours.median / rate.median)
            rows.append([f"*{workload}* {code(subject)}", str(producers), number(rate.median / 1e6),
                         f"{number(rate.spread[0] / 1e6)}–{number(rate.spread[1] / 1e6)} ({rate.count})", ratio,
                         number_of(f.remote_counter(key, "producer_ns")), f"{f.remote_counter(key, 'wakeups').median:.4f}"])
        return f"""\
## From other threads

Millions of timers a second that one or two threads hand to a loop, until they are in its wheel: by `remote_handle`; by a vector behind a mutex that the loop
swaps; by a queue behind a mutex with a `uv_async_send` each; and in *post_at* by `floor`, a ring for one producer of which nothing can be cancelled or closed:
what handing over takes at the least. *post* reads the clock for each, *post_at* once a burst of 65,536. Real time, not pinned; two producers and the loop share {self.context['cores']} cores.

{table(["", "producers", "M/s", "least to most", "tickwheel is faster", "producer, ns an item", "wakeups an item"], rows)}"""

    def cost_model(self):
        f = self.figures
        rows = []
        for workload, subject, n in sorted(f.cost, key=cost_order):
            cost = f.cost[workload, subject, n]
            tight, fenced = f.ns(workload, subject, n), f.ns(workload + FENCED, subject, n)
            rows.append([f"*{workload}* {code(subject)}", f"{n:,}", number(cost["instructions"]), number(cost["cache_lines"]),
                         number(cost["cold_lines"]), number_of(tight), number_of(fenced)])
        fenced = [self.fenced(w) for w in f.fenced()]
        return f"""\
## Cost model

What an operation consists of, counted by callgrind: instructions in user space; *lines* of 64 bytes that it reads or writes, all
that it is given being out of the cache; and *cold* ones, those among them that no operation had touched in the same millisecond. Beside them what it takes in a
tight loop, and *fenced*: apart from its neighbours, so that no miss overlaps with one of theirs. By itself an operation on an
object that is not in the cache takes the miss on that at least, as a fenced store does.

{table(["", "N", "instructions", "lines", "cold", "tight loop, ns", "fenced, ns"], rows)}
The fence by itself takes {number_of(f.ns(FLOOR, "fence", 1))} ns, which is part of all fenced figures.

{"".join(fenced)}"""

    def fenced(self, workload):
        f = self.figures
        name = workload + FENCED
        sizes = f.sizes(name)
        rows = [[code(s), *(self.cell(name, s, n) for n in sizes)] for s in f.subjects(name)]
        rows += [[f"*floor, {k}*", *(number_of(f.ns(FLOOR, k, n)) for n in sizes)] for k in ("store_fenced", "chase")]
        return f"*{workload}*, fenced:\n\n" + table(["", *(f"{n:,}" for n in sizes)], rows) + "\n"

    def limits(self):
        c, v = self.context, self.figures.versions
        machine = f"{'A virtual machine' if c['virtual'] else 'One machine'} of {c['cores']} cores, perhaps shared."
        counts = sorted({f.count for f in self.all_samples()})
        repetitions = (f"Each figure has {counts[0]}." if len(counts) == 1 else
                       f"A figure has from {counts[0]} to {counts[-1]}, as many as its time allowed; the tables of the spread say how many.")
        return "## What the figures do not say\n\n" + text.LIMITS.format(
            machine=machine, tick=v["tick"], connection=v["connection"], malloc=c["malloc"], repetitions=repetitions)

    def all_samples(self):
        f = self.figures
        for w in WORKLOADS:
            for s in f.subjects(w):
                for n in f.sizes(w):
                    if sample := f.ns(w, s, n):
                        yield sample


def number_of(sample, form=None):
    if sample is None:
        return "–"
    return form.format(sample.median) if form else number(sample.median)


def spread(sample):
    if sample is None:
        return "–"
    least, most = sample.spread
    return f"{number(least)}–{number(most)} ({sample.count})"


def cost_order(key):
    workload, subject, n = key
    known = [*WORKLOADS]
    return (known.index(workload) if workload in known else len(known), workload, n,
            SUBJECTS.index(subject) if subject in SUBJECTS else len(SUBJECTS), subject)


def minutes(seconds):
    return f"{seconds} seconds" if seconds < 120 else f"{round(seconds / 60)} minutes"


def caches(versions):
    size = lambda c: f"{c['size'] // 1024} KiB" if c["size"] < MILLION else f"{c['size'] // 1024 ** 2} MiB"
    kinds = {"Data": "d", "Instruction": "i"}
    return ", ".join(f"L{c['level']}{kinds.get(c['type'], '')} {size(c)}" for c in versions["caches"])
