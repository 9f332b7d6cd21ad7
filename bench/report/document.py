"""The page: the tables of all figures, in the prose of benchmarks.md.in."""
import math

import template
from figures import FENCED, FLOOR, FLOORS, LOOPS, OURS, SUBJECTS, WORKLOADS, Figures

MILLION = 1_000_000
# of worker_bench: the counter, its name, how it is written, and whether more is better
WORKER_COLUMNS = (("caller_ns", "caller", "{} ns", False), ("worker_ns", "worker", "{} ns", False),
                  ("process_ns", "process", "{} ns", False), ("per_second", "armed", "{} M/s", True),
                  ("late_p50_us", "late p50", "{} us", False), ("late_p99_us", "late p99", "{} us", False))


def write(figures, plots, folder):
    """The whole page, in Markdown. `plots`: the plots' file names by what they show, in `folder`."""
    page = Page(figures, plots, folder)
    return template.fill(template.PROSE.read_text(), page.values(), page.conditions())


def number(value):
    """Three digits, or all of those before the point."""
    if value is None or math.isnan(value):
        return "–"
    magnitude = abs(value)
    return f"{value:,.0f}" if magnitude >= 99.5 else f"{value:.1f}" if magnitude >= 9.95 else f"{value:.2f}"


def times(ratio):
    return f"{ratio:.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.2f}x"


def share(ratio):
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


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

    def values(self):
        """What the prose names, by name."""
        f, c, v, plan = self.figures, self.context, self.figures.versions, self.context["plan"]
        counts = sorted({sample.count for sample in self.all_samples()})
        return {
            "command": "./dev bench --quick" if f.quick else "./dev bench",
            "duration": minutes(c["seconds"]), "date": c["date"], "commit": c["commit"], "machine": self.machine(),
            "kind of machine": "A virtual machine" if c["virtual"] else "One machine", "cores": str(c["cores"]),
            "tick": v["tick"], "connection": v["connection"], "malloc": c["malloc"],
            "least repetitions": str(counts[0]), "most repetitions": str(counts[-1]),
            "main from": f"{plan['main_from']:,}", "main": ", ".join(map(code, plan["main"])),
            "left out": ", ".join(plan["left_out"]),
            "summary n": f"{self.summary_n():,}", "summary": self.summary(), "floor": self.floor_table(),
            "not fastest": self.not_fastest(), "not fastest elsewhere": self.not_fastest_elsewhere(),
            **{f"workload {w}": self.workload(w) for w in WORKLOADS}, "pauses": self.pauses(),
            **{f"n {w}": f"{f.sizes(w)[0]:,}" for w in ("wait", "sparse")},
            "plot latency": self.plot("latency", "The fraction of the timers that have fired, by lateness"),
            "plot echo": self.plot("echo", "Instructions per message that idle timeouts add"),
            "latency": self.latency(), "burst": self.burst(), "echo": self.echo(), "remote": self.remote(),
            "worker": self.worker(), "loops": self.loops(),
            "cost": self.cost_model(), "fence": number_of(f.ns(FLOOR, "fence", 1)),
            "fenced": "\n".join(self.fenced(w) for w in f.fenced()),
        }

    def conditions(self):
        """Which lines of the prose are kept."""
        f, plan = self.figures, self.context["plan"]
        counts = {sample.count for sample in self.all_samples()}
        hold = {f"subject {s}" for w in WORKLOADS for s in f.subjects(w)}
        hold.add("same repetitions" if len(counts) == 1 else "other repetitions")
        if f.quick:
            hold.add("quick")
        if any(n >= plan["main_from"] for n in plan["sizes"]):
            hold.add("left out")
        if any(subject == "floor" for _, subject, _ in f.remote()):
            hold.add("remote floor")
        hold.add("netty" if "netty" in f.programs else "no netty")
        hold.add("loops" if f.loops else "no loops")
        if not any(f.ns(w, "btree", n) for w in WORKLOADS for n in f.sizes(w)):
            hold.add("no btree")
        return hold

    def plot(self, what, alt):
        return f"![{alt}]({self.folder}/{self.plots[what]})\n" if what in self.plots else ""

    def machine(self):
        c, v = self.context, self.figures.versions
        versions = ", ".join(f"{name} {v[key].replace('_', '.')}" for name, key in
                             [("libuv", "libuv"), ("libevent", "libevent"), ("libev", "libev"), ("Boost", "boost"), ("abseil", "abseil"),
                              ("Netty", "netty"), ("Java", "java")] if key in v)
        rows = {
            "processor": f"{c['cpu']} ({c['cpu_model']}){', of a virtual machine' if c['virtual'] else ''}, {c['cores']} cores",
            "caches": caches(v),
            "system": f"{c['kernel']}, {c['libc']}, transparent huge pages: {c['huge_pages']}",
            "compiler": c["compiler"],
            "flags": code(c["flags"]),
            "libraries": f"{versions}, malloc: {c['malloc']}",
            "tickwheel": f"tick {v['tick']}, {v['wheel']}; `wheel_hashed`: {v['wheel_hashed']}",
            "pinned to": f"core {c['core']}, except remote_bench, worker_bench, Netty and loops_bench",
        }
        return "\n".join(f"| {name} | {what} |" for name, what in rows.items())

    def summary_n(self):
        return max(n for n in self.figures.sizes("rearm") if n <= MILLION)

    def summary(self):
        f = self.figures
        n = self.summary_n()
        rows = [(w, n) for w in ("arm_cancel", "request", "touch", "touch_30s", "rearm", "arm", "lifecycle", "fire")]
        rows += [("fire", m) for m in (1000, 10_000) if m in f.sizes("fire") and m != n]
        ours = ("timer", "timer_at", "wheel")
        peers = [s for s in ("libuv", "libevent", "libev", "asio", "multimap", "priority_queue") if f.ns("rearm", s, n)]
        lines = []
        for workload, m in rows:
            name = workload if m == n else f"{workload}, N = {m:,}"
            lines.append([f"*{name}*", *(number_of(f.ns(workload, s, m)) for s in ours),
                          *(self.with_ratios(workload, s, m) for s in peers)])
        return table(["", *map(code, ours), *peers], lines)

    def not_fastest(self):
        """Each workload and N in which a peer is faster than `timer`, `timer_at` or `wheel`."""
        f = self.figures
        rows = []

        def add(name, n, value, write):
            beaten = [(ours, value(ours), f.faster(value, ours)) for ours in ("timer", "timer_at", "wheel")]
            if any(faster for _, _, faster in beaten):
                cells = [[number_of(ours, write), self.others(faster, ours, write)] for _, ours, faster in beaten]
                rows.append([f"*{name}*", f"{n:,}", *sum(cells, [])])

        for w in WORKLOADS:
            for n in f.sizes(w):
                add(w, n, lambda s, w=w, n=n: f.ns(w, s, n), "{}")
        for counter, name in (("p999", "p99.9"), ("p9999", "p99.99"), ("max", "longest tick")):
            for n in f.sizes("pause"):
                add(f"pause, {name}", n, lambda s, n=n, counter=counter: f.counter("pause", s, n, counter), "{} us")
        if not rows:
            return "None."
        return table(["", "N", "`timer`", "faster than `timer`", "`timer_at`", "faster than `timer_at`", "`wheel`", "faster than `wheel`"], rows)

    @staticmethod
    def others(faster, ours, write="{}"):
        """Each loop, and the fastest three."""
        said = [f"{name} {number_of(sample, write)} ({share(sample.median / ours.median)})"
                for at, (name, sample) in enumerate(faster) if at < 3 or name in LOOPS]
        return ", ".join(said) + (f", and {len(faster) - len(said)} more" if len(faster) > len(said) else "") or "–"

    def not_fastest_elsewhere(self):
        """The same of the other programs: what tickwheel has, and who has less, or more per second."""
        f = self.figures
        rows = []

        def add(name, ours, others, write="{}", more=False):
            faster = [(other, value) for other, value in others if (value > ours if more else value < ours)]
            if faster:
                rows.append([name, write.format(number(ours)), ", ".join(f"{other} {write.format(number(v))}" for other, v in faster)])

        for workload, producers in sorted({(w, p) for w, _, p in f.remote()}):
            rates = {s: f.remote_counter((w, s, p), "items_per_second").median / 1e6 for w, s, p in f.remote()
                     if (w, p) == (workload, producers)}
            add(f"*{workload}*, producers: {producers}", rates["tickwheel"], [(s, r) for s, r in rates.items() if s != "tickwheel"],
                "{} M/s", more=True)
        for condition in dict.fromkeys(s["condition"] for s in f.latency):
            rows_of = {s["name"]: s for s in f.latency if s["condition"] == condition}
            for column, name in (("p50_us", "p50"), ("p99_us", "p99"), ("max_us", "max")):
                add(f"lateness, {condition} loop, {name}", rows_of["tickwheel"][column],
                    [(f"{s}{' (some early)' if r['early'] else ''}", r[column]) for s, r in rows_of.items()
                     if s not in ("tickwheel", "timerfd")], "{} us")
        for load, callers in sorted({(l, c) for l, c, _ in f.worker()}):
            names = [name for l, c, name in f.worker() if (l, c) == (load, callers)]
            for column, name, write, more in WORKER_COLUMNS:
                samples = {n: f.worker_counter((load, callers, n), column) for n in names}
                values = {n: s.median / (1e6 if more else 1) for n, s in samples.items() if s}
                if "tickwheel" in values:
                    add(f"*{load}*, callers: {callers}, {name}", values["tickwheel"],
                        [(n, v) for n, v in values.items() if n != "tickwheel"], write, more)
        return table(["", "`tickwheel`", "better"], rows) if rows else "None."

    def readme(self):
        """README's table: what users call first."""
        f = self.figures
        n = self.summary_n()
        subjects = ("timer", "timer_at", "wheel", "libuv", "libevent", "libev", "asio")
        rows = [[w, *(number_of(f.ns(w, s, n)) for s in subjects), times(f.ratio(w, "libuv", n, "timer_at"))]
                for w in ("request", "touch", "touch_30s", "rearm", "arm", "lifecycle", "fire")]
        return table(["operation", "`arm`, reads the clock", "`arm_at`, stamped time", "`wheel`", "libuv", "libevent", "libev", "Asio",
                      "libuv / `arm_at`"], rows)

    def with_ratios(self, workload, subject, n):
        f = self.figures
        sample = f.ns(workload, subject, n)
        ratios = [f.ratio(workload, subject, n, to) for to in ("wheel", "timer_at")]
        known = [times(r) for r in ratios if not math.isnan(r)]
        return number_of(sample) + (f" ({', '.join(known)})" if sample and known else "")

    # --- wheel_bench

    def floor_table(self):
        f = self.figures
        sizes = f.sizes(FLOOR)
        rows = [[k, *(number_of(f.ns(FLOOR, k, n)) for n in sizes)] for k in f.subjects(FLOOR, FLOORS)]
        return table(["floor", *(f"{n:,}" for n in sizes)], rows)

    def workload(self, workload):
        f = self.figures
        sizes, subjects = f.sizes(workload), f.subjects(workload)
        parts = []
        if workload in self.plots:
            parts.append(self.plot(workload, f"Nanoseconds per operation over N, {workload}"))
        if len(sizes) > 1:
            rows = [[code(s), *(self.cell(workload, s, n) for n in sizes)] for s in subjects]
            parts.append(table(["", *(f"{n:,}" for n in sizes)], rows))
            parts.append(folded("Spread: minimum, maximum, and the number of repetitions", table(
                ["", *(f"{n:,}" for n in sizes)], [[code(s), *(spread(f.ns(workload, s, n)) for n in sizes)] for s in subjects])))
        else:
            (n,) = sizes
            parts.append(table(["", "ns", "minimum to maximum", "wakeups"], [
                [code(s), self.cell(workload, s, n), spread(f.ns(workload, s, n)),
                 number_of(f.counter(workload, s, n, "wakeups"), "{:,.0f}")] for s in subjects]))
        return "\n".join(parts)

    def cell(self, workload, subject, n):
        return (number_of(self.figures.ns(workload, subject, n)) if subject in OURS
                else self.with_ratios(workload, subject, n))

    def pauses(self):
        f = self.figures
        sizes, subjects = f.sizes("pause"), f.subjects("pause")
        names = ("p999", "p9999", "max")
        rows = [[code(s), *(" / ".join(number_of(f.counter("pause", s, n, c)) for c in names) if f.ns("pause", s, n) else "–"
                            for n in sizes)] for s in subjects]
        return table(["", *(f"{n:,}" for n in sizes)], rows)

    # --- the other programs

    def latency(self):
        rows = [[code(s["name"]), s["condition"], number(s["p50_us"]), number(s["p99_us"]), number(s["max_us"]),
                 f"{s['early']:,} of {s['fired']:,}"] for s in self.figures.latency]
        return table(["", "loop", "p50", "p99", "max", "early"], rows)

    def burst(self):
        rows = [[code(r["name"]), number(r["p50_us"]), number(r["p99_us"])] for r in self.figures.burst]
        return table(["", "p50", "p99"], rows)

    def echo(self):
        rows = []
        for burst, modes in sorted(self.figures.echo.items(), reverse=True):
            base = next((m["instructions_per_message"] for m in modes if m["name"] == "none"), math.nan)
            for m in modes:
                more = m["instructions_per_message"] - base
                rows.append([code(m["name"]), f"{burst:,}", number(m["instructions_per_message"]), f"{more:+.1f}",
                             f"{100 * more / base:+.2f} %"])
        return table(["", "messages per iteration", "instructions per message", "more", ""], rows)

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
        return table(["", "producers", "M/s", "minimum to maximum", "tickwheel is faster", "producer, ns per item",
                      "wakeups per item"], rows)

    def worker(self):
        f = self.figures
        rows = []
        for load, callers, name in sorted(f.worker(), key=lambda k: (k[0] != "fire", k[1], f.worker().index(k))):
            key = load, callers, name
            rows.append([f"*{load}* {code(name)}", str(callers),
                         *(number_of(f.worker_counter(key, column)) for column in ("caller_ns", "worker_ns", "process_ns")),
                         number(f.worker_counter(key, "per_second").median / 1e6),
                         *(number_of(f.worker_counter(key, column)) for column in ("late_p50_us", "late_p99_us", "late_max_us")),
                         number_of(f.worker_counter(key, "early"), "{:,.0f}"), str(f.worker_counter(key, "caller_ns").count)])
        return table(["", "callers", "caller, ns", "worker, ns", "process, ns", "M/s", "late p50, us", "late p99, us", "latest, us", "early",
                      "repetitions"], rows)

    def loops(self):
        rows = [[f"*{r['workload']}*", f"{r['n']:,}", str(r["processor"]), number(r["alone_ns"]), number(r["together_ns"]),
                 f"{r['ratio']:.3f}x", str(r["repetitions"])] for r in self.figures.loops]
        return table(["", "N", "processor", "alone, ns", "together, ns", "ratio", "repetitions"], rows) if rows else ""

    def cost_model(self):
        f = self.figures
        rows = []
        for workload, subject, n in sorted(f.cost, key=cost_order):
            cost = f.cost[workload, subject, n]
            tight, fenced = f.ns(workload, subject, n), f.ns(workload + FENCED, subject, n)
            rows.append([f"*{workload}* {code(subject)}", f"{n:,}", number(cost["instructions"]), number(cost["cache_lines"]),
                         number(cost["cold_lines"]), number_of(tight), number_of(fenced)])
        return table(["", "N", "instructions", "lines", "cold", "tight loop, ns", "fenced, ns"], rows)

    def fenced(self, workload):
        f = self.figures
        name = workload + FENCED
        sizes = f.sizes(name)
        rows = [[code(s), *(self.cell(name, s, n) for n in sizes)] for s in f.subjects(name)]
        rows += [[f"*floor, {k}*", *(number_of(f.ns(FLOOR, k, n)) for n in sizes)] for k in ("store_fenced", "chase")]
        return f"*{workload}*, fenced:\n\n" + table(["", *(f"{n:,}" for n in sizes)], rows) + "\n"

    def all_samples(self):
        f = self.figures
        for w in WORKLOADS:
            for s in f.subjects(w):
                for n in f.sizes(w):
                    if sample := f.ns(w, s, n):
                        yield sample


def milliseconds(row, percentile):
    return number(row[percentile + "_us"] / 1000) if row else "–"


def number_of(sample, form="{}"):
    """`form`: {} stands for the number in its usual digits; any other field formats the median itself."""
    if sample is None:
        return "–"
    return form.format(number(sample.median) if "{}" in form else sample.median)


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
