"""The page: the tables of all figures, in the prose of benchmarks.md.in."""
import math

import template
from figures import FENCED, FLOOR, FLOORS, OURS, SUBJECTS, WORKLOADS, Figures

MILLION = 1_000_000


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
            **{f"workload {w}": self.workload(w) for w in WORKLOADS}, "pauses": self.pauses(),
            **{f"n {w}": f"{f.sizes(w)[0]:,}" for w in ("wait", "sparse")},
            "plot latency": self.plot("latency", "The fraction of the timers that have fired, by lateness"),
            "plot echo": self.plot("echo", "Instructions per message that idle timeouts add"),
            "latency": self.latency(), "burst": self.burst(), "echo": self.echo(), "remote": self.remote(),
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
        return hold

    def plot(self, what, alt):
        return f"![{alt}]({self.folder}/{self.plots[what]})\n" if what in self.plots else ""

    def machine(self):
        c, v = self.context, self.figures.versions
        versions = ", ".join(f"{name} {v[key].replace('_', '.')}" for name, key in
                             [("libuv", "libuv"), ("libevent", "libevent"), ("libev", "libev"), ("Boost", "boost")])
        rows = {
            "processor": f"{c['cpu']} ({c['cpu_model']}){', of a virtual machine' if c['virtual'] else ''}, {c['cores']} cores",
            "caches": caches(v),
            "system": f"{c['kernel']}, {c['libc']}, transparent huge pages: {c['huge_pages']}",
            "compiler": c["compiler"],
            "flags": code(c["flags"]),
            "libraries": f"{versions}, malloc: {c['malloc']}",
            "tickwheel": f"tick {v['tick']}, {v['wheel']}; `wheel_hashed`: {v['wheel_hashed']}",
            "pinned to": f"core {c['core']}, except remote_bench",
        }
        return "\n".join(f"| {name} | {what} |" for name, what in rows.items())

    def summary_n(self):
        return max(n for n in self.figures.sizes("rearm") if n <= MILLION)

    def summary(self):
        f = self.figures
        n = self.summary_n()
        rows = [(w, n) for w in ("arm_cancel", "touch", "rearm", "arm", "lifecycle", "fire")]
        rows += [("fire", m) for m in (1000, 10_000) if m in f.sizes("fire") and m != n]
        ours = ("wheel", "timer_at", "timer")
        peers = [s for s in ("libuv", "libevent", "libev", "asio", "multimap", "priority_queue") if f.ns("rearm", s, n)]
        lines = []
        for workload, m in rows:
            name = workload if m == n else f"{workload}, N = {m:,}"
            lines.append([f"*{name}*", *(number_of(f.ns(workload, s, m)) for s in ours),
                          *(self.with_ratios(workload, s, m) for s in peers)])
        return table(["", *map(code, ours), *peers], lines)

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
