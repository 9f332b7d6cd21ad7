"""Fills the prose of benchmarks.md.in with what was measured.

    @{name}        is replaced by that value
    @[name] text   at the begin of a line: the line is kept if that condition holds, without the mark
"""
import pathlib
import re

from errors import ReportError

PROSE = pathlib.Path(__file__).with_name("benchmarks.md.in")


def fill(prose, values, conditions):
    """The prose with its values. `conditions`: the names that hold."""
    lines = []
    for line in prose.splitlines():
        mark = re.match(r"@\[([^\]]*)\] ?", line)
        if mark and mark[1] not in conditions:
            continue
        lines.append(line[mark.end():] if mark else line)

    def value(name):
        if name[1] not in values:
            raise ReportError(f"{PROSE.name}: there is no value {name[1]}")
        return values[name[1]].rstrip("\n")

    page = re.sub(r"@\{([^}]*)\}", value, "\n".join(lines))
    return re.sub(r"\n{3,}", "\n\n", page).rstrip("\n") + "\n"
