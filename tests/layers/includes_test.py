"""No include points up: core < uv < net < durable, and c stands on uv beside net. No folders include each other in a circle.

Files of no layer, such as those of tests/support, count for the highest layer that they include.
"""
import functools
import pathlib
import re
import sys
import unittest

root = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCES = sorted(path for folder in ("include", "src", "tests", "bench", "examples") for path in (root / folder).rglob("*")
                 if path.suffix in (".h", ".hpp", ".c", ".cpp"))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', flags=re.MULTILINE)

# What a layer may include: itself, and the layers it stands on.
STANDS_ON = {"core": {"core"}, "uv": {"core", "uv"}, "net": {"core", "uv", "net"}, "c": {"core", "uv", "c"},
             "durable": {"core", "uv", "net", "durable"}}

# The one reader of private files outside the library: the ceiling of a store runs the store's own statements without the store.
READS_PRIVATE = ("bench/durable/subjects/", "src/durable/postgres/sql/")


def layer_of(path):
    """By its folder; None for a file of no layer."""
    parts = path.relative_to(root).parts
    if parts[0] == "include":
        parts = parts[1:]
        if parts[1:] == ("tickwheel.h",):
            return "c"
    return parts[1] if parts[0] in ("tickwheel", "src", "tests") and parts[1] in STANDS_ON else None


def included_by(path):
    """Each file of ours that `path` includes, and the number of the line."""
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        kind, name = match.groups()
        for folder in (path.parent, root / "include") if kind == '"' else (root / "include",):
            target = (folder / name).resolve()
            if target.is_file() and target.is_relative_to(root):
                yield target, text.count("\n", 0, match.start(2)) + 1
                break


@functools.cache
def layers_under(path):
    """The layers that `path` counts for."""
    own = layer_of(path)
    if own is not None:
        return frozenset({own})
    return frozenset().union(*(layers_under(target) for target, _ in included_by(path)))


def offences():
    """A line for each include that points up, or at another layer's secrets."""
    for path in SOURCES:
        own = layer_of(path)
        where = path.relative_to(root)
        for target, line in included_by(path):
            what = target.relative_to(root)
            if own is not None and not layers_under(target) <= STANDS_ON[own]:
                yield f"{where}:{line}: {own}/ may not include {what}"
            is_allowed = all(str(name).startswith(folder) for name, folder in zip((where, what), READS_PRIVATE))
            if where.parts[0] in ("bench", "examples") and ("detail" in what.parts or what.parts[0] == "src") and not is_allowed:
                yield f"{where}:{line}: {what} is private"
            if where.parts[0] in ("include", "src") and what.parts[0] not in ("include", "src"):
                yield f"{where}:{line}: the library may not include {what}"
            if where.parts[0] == "include" and what.parts[0] == "src":
                yield f"{where}:{line}: {what} is not installed"


def folder_of(path):
    """A layer's detail/ is part of the layer."""
    folder = path.parent.relative_to(root)
    return folder.parent if folder.name == "detail" else folder


def folders_in_a_circle():
    """A line for each folder whose includes lead to other folders and back."""
    includes = {}
    for path in SOURCES:
        includes.setdefault(folder_of(path), set()).update(folder_of(target) for target, _ in included_by(path))
    for start in includes:
        reached, to_follow = set(), includes[start] - {start}
        while to_follow:
            reached |= to_follow
            to_follow = set().union(*(includes[folder] for folder in to_follow)) - reached
        if start in reached:
            yield f"{start}: by way of some of {sorted(map(str, reached - {start}))}"


class Includes(unittest.TestCase):
    def test_are_found(self):
        self.assertGreater(sum(1 for path in SOURCES for _ in included_by(path)), 500)

    def test_do_not_point_up(self):
        self.assertEqual([], list(offences()))

    def test_lead_in_no_circle(self):
        self.assertEqual([], list(folders_in_a_circle()))

    def test_of_every_layer_are_looked_at(self):
        self.assertEqual(set(STANDS_ON), {layer_of(path) for path in SOURCES} - {None})


if __name__ == "__main__":
    unittest.main()
