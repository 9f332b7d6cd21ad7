"""Describes the machine on which the benchmarks ran."""
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess

from errors import ReportError


def core(wanted):
    """The processor to pin to: by default the last one, because interrupts mostly go to the first."""
    allowed = sorted(os.sched_getaffinity(0))
    if wanted is None:
        return allowed[-1]
    if wanted not in allowed:
        raise ReportError(f"--core: {wanted} is not among the processors that this process may use: {', '.join(map(str, allowed))}")
    return wanted


def describe(root, build, program="wheel_bench"):
    """`program`: one that was built, and is like the others."""
    processor = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    field = dict(re.findall(r"^(.+?)\s*:\s*(.*)$", processor, re.MULTILINE))
    compiler, flags = how_built(build, program)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(root),
        "cpu": field["model name"],
        "cpu_model": f"family {field['cpu family']}, model {field['model']}",
        "cores": len(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in field["flags"].split(),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "huge_pages": huge_pages(),
        "compiler": compiler,
        "flags": flags,
        "malloc": allocator(build, program),
        "libraries": {name: version(package) for name, package in (("libuv", "libuv"), ("SQLite", "sqlite3"), ("libpq", "libpq"))},
    }


def commit(root):
    git = ["git", "-C", str(root)]
    try:
        name = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + (" with changes" if changed else "")


def how_built(build, program):
    """The compiler, and those of its flags that decide about speed."""
    targets = json.loads((build / "meson-info/intro-targets.json").read_text())
    target = next((t for t in targets if t["name"] == program), None)
    if target is None:
        raise ReportError(f"{build} has no {program}; a library that it needs was missing when it was configured")
    source = target["target_sources"][0]
    version = subprocess.run([*source["compiler"], "--version"], capture_output=True, text=True, check=True).stdout
    flags = [f for f in source["parameters"] if re.match(r"-(O|std=|DNDEBUG|m|f(?!diagnostics))", f)]
    return version.splitlines()[0], " ".join(flags)


def allocator(build, program):
    linked = subprocess.run(["ldd", str(build / "bench" / program)], capture_output=True, text=True).stdout
    return "mimalloc" if "mimalloc" in linked else "the C library's"


def version(package):
    found = subprocess.run(["pkg-config", "--modversion", package], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def huge_pages():
    try:
        text = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "none"
    return re.search(r"\[(\w+)\]", text)[1]
