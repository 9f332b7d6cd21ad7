"""The plots: SVG that is the same for the same figures, and readable on light pages and on dark ones."""
import math

from errors import ReportError
from durable import OPERATIONS
from figures import FLOOR, OURS, WORKLOADS

try:
    import matplotlib
except ImportError:
    raise ReportError("the plots need matplotlib; on Debian install python3-matplotlib") from None
matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend first)

INK = "#808890"  # on white and on black alike
STYLE = {
    "svg.hashsalt": "tickwheel", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "figure.figsize": (7.5, 4.5), "figure.constrained_layout.use": True, "savefig.transparent": True,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.grid": True, "grid.color": INK, "grid.alpha": 0.25, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "axes.axisbelow": True,
}
# tickwheel's are blue and solid; peers differ by colour and marker, and lines that nobody takes by dashes
LINES = {
    "wheel": ("#1f6feb", "o"), "timer_at": ("#3fa7ff", "o"), "timer": ("#6f8cff", "s"), "wheel_hashed": ("#56b4c9", "^"),
    "wheel_polled": ("#1f6feb", "s"),
    "timer_c": ("#56b4c9", "s"), "timer_slack": ("#56b4c9", "^"), "timer_split": ("#56b4c9", "d"), "tickwheel": ("#1f6feb", "o"), "timerfd": ("#3fa7ff", "o"), "none": (INK, "o"),
    "libuv": ("#d9822b", "v"), "libevent": ("#d1477a", "D"), "libevent_common": ("#e58fb1", "d"), "libev": ("#3a9a4b", "P"),
    "asio": ("#9b59b6", "X"), "multimap": ("#a5794f", "<"), "priority_queue": ("#c9a227", ">"), "btree": ("#7a5230", "h"),
    "plain_hashed": ("#8a9a5b", "1"), "plain_hierarchical": ("#5f7a3a", "2"),
}
DURABLE_COLOURS = {"schedule": "#1f6feb", "cancel": "#d9822b", "start+finish": "#3a9a4b"}
DASHED = {"store": (0, (6, 3)), "store_each": (0, (6, 3)), "chase": (0, (1, 2))}
# arm and fire visit each object once, the others at random
FLOORED = {"rearm": ("store", "chase"), "request": ("store", "chase"), "touch": ("store", "chase"), "touch_30s": ("store", "chase"),
           "lifecycle": ("store", "chase"),
           "arm": ("store_each", "chase"), "fire": ("store_each", "chase")}


def draw_all(figures, folder):
    """Writes them into `folder`; their file names by what they show."""
    plots = {w: lambda w=w: over_n(figures, w) for w in WORKLOADS if len(figures.sizes(w)) > 1}
    plots["latency"] = lambda: lateness(figures)
    plots["echo"] = lambda: echo(figures)
    return draw(plots, folder)


def draw_durable(figures, folder):
    """As above, of durable tasks."""
    return draw({"durable": lambda: durable(figures)} if len(figures.sizes()) > 1 else {}, folder)


def draw(plots, folder):
    names = {}
    for what, make in plots.items():
        with plt.rc_context(STYLE):
            figure = make()
            names[what] = f"{what}.svg"
            figure.savefig(folder / names[what], metadata={"Date": None, "Creator": None})
            plt.close(figure)
    return names


def style(name):
    colour, marker = LINES.get(name, ("#999999", "."))
    ours = name in OURS or name in ("tickwheel", "timerfd")
    return {"color": colour, "linewidth": 2.2 if ours else 1.3, "label": name, "zorder": 3 if ours else 2}, marker


def over_n(figures, workload):
    figure, axes = plt.subplots()
    for subject in figures.subjects(workload):
        points = [(n, figures.ns(workload, subject, n)) for n in figures.sizes(workload)]
        points = [(n, sample.median) for n, sample in points if sample]
        look, marker = style(subject)
        axes.plot(*zip(*points), marker=marker, markersize=5, **look)
    for floor in FLOORED.get(workload, ()):
        points = [(n, figures.ns(FLOOR, floor, n)) for n in figures.sizes(FLOOR)]
        points = [(n, sample.median) for n, sample in points if sample]
        axes.plot(*zip(*points), color=INK, linestyle=DASHED[floor], linewidth=1.3, label=f"floor: {floor}")
    axes.set(xscale="log", yscale="log", xlabel="timers (N)", ylabel="ns per operation", title=workload)
    beside(axes)
    return figure


def lateness(figures):
    conditions = list(dict.fromkeys(s["condition"] for s in figures.latency))
    figure, all_axes = plt.subplots(1, len(conditions), sharey=True, squeeze=False, figsize=(4 * len(conditions) + 1.5, 4))
    for axes, condition in zip(all_axes[0], conditions):
        for subject in figures.latency:
            if subject["condition"] == condition:
                # from where those are that came early, or on time: left of the first microsecond
                early = subject["early"] / max(1, subject["fired"])
                points = [(1, early)] + [(max(1, us), fraction) for us, fraction in subject["cdf"]]
                axes.plot(*zip(*points), drawstyle="steps-post", **style(subject["name"])[0])
        axes.set(xscale="log", xlabel="late by, us", title=condition, ylim=(0, 1.01))
    all_axes[0][0].set_ylabel("fraction of the timers that have fired")
    beside(all_axes[0][-1])
    return figure


def echo(figures):
    """What each mode adds to a message, in per cent of one without timers."""
    bursts = sorted(figures.echo, reverse=True)
    modes = [m["name"] for m in figures.echo[bursts[0]] if m["name"] != "none"]
    figure, axes = plt.subplots(figsize=(7.5, 3.5))
    width = 0.8 / max(1, len(modes))
    for i, mode in enumerate(modes):
        places = [b + width * (i - (len(modes) - 1) / 2) for b in range(len(bursts))]
        heights = [instructions(figures.echo[b], mode) - instructions(figures.echo[b], "none") for b in bursts]
        bars = axes.bar(places, heights, width * 0.9, color=style(mode)[0]["color"], label=mode)
        axes.bar_label(bars, [f"{h:+.1f}" for h in heights], padding=2)
    axes.set_xticks(range(len(bursts)), [f"{b:,}" for b in bursts])
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.15)
    axes.set(xlabel="messages per iteration", ylabel="instructions per message, added")
    beside(axes)
    return figure


def durable(figures):
    """Operations per second over pending tasks: solid the scheduler's, dashed those of bare SQLite."""
    figure, axes = plt.subplots()
    sizes = figures.sizes()
    for name in OPERATIONS:
        for prefix, look in (("", {"linewidth": 2.2, "marker": "o"}), ("raw ", {"linewidth": 1.3, "linestyle": (0, (6, 3))})):
            rates = [figures.rate(prefix + name, pending) for pending in sizes]
            axes.plot(sizes, rates, color=DURABLE_COLOURS[name], markersize=5, label=prefix + name, **look)
    axes.set(xscale="log", xlabel="pending tasks", ylabel="operations per second", title="durable tasks")
    axes.set_ylim(bottom=0)
    beside(axes)
    return figure


def instructions(modes, name):
    return next((m["instructions_per_message"] for m in modes if m["name"] == name), math.nan)


def beside(axes):
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
