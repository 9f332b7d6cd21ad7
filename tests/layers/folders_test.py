"""A folder of code or documents has at most 25 files of its own, so that a newcomer finds each. A larger one is split by concept."""
import collections
import pathlib
import sys
import tempfile
import unittest

root = pathlib.Path(sys.argv.pop(1)).resolve()
LOOKED_AT = ("include", "src", "tests", "bench", "examples", "docs")
MOST = 25

# Collections: a file of theirs is found by its name, and nobody reads them as a whole.
COLLECTIONS = {
    "tests/mutations": "a patch for each way to break a promise",
    "tests/durable/*/defects": "a patch for each defect that a harness must find",
    "tests/**/corpus": "an input for each case that a fuzzer found",
    "docs/benchmarks": "a picture for each figure of the report",
}


def files_of(tree):
    """How many files each folder has of its own. What editors and Python leave behind does not count."""
    counts = collections.Counter()
    for top in LOOKED_AT:
        for path in (tree / top).rglob("*"):
            where = path.relative_to(tree)
            is_left_behind = any(part.startswith(".") or part == "__pycache__" for part in where.parts) or path.suffix == ".swp"
            if path.is_file() and not is_left_behind:
                counts[where.parent] += 1
    return counts


def too_large(tree):
    """A line for each folder that has too many files."""
    collections_of_tree = {path.relative_to(tree) for pattern in COLLECTIONS for path in tree.glob(pattern)}
    return [f"{folder} has {count} files of its own; it must have at most {MOST}"
            for folder, count in sorted(files_of(tree).items()) if count > MOST and folder not in collections_of_tree]


class Folders(unittest.TestCase):
    def test_are_found(self):
        self.assertEqual(set(LOOKED_AT), {folder.parts[0] for folder in files_of(root)})

    def test_are_not_too_large(self):
        found = too_large(root)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_that_are_collections_are_there(self):
        self.assertEqual([], [pattern for pattern in COLLECTIONS if not any(root.glob(pattern))])

    def test_with_one_file_too_many_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            for name, count in (("src/uv", MOST + 1), ("src/core", MOST), ("tests/mutations", MOST + 1), ("src/uv/detail", 1)):
                (tree / name).mkdir(parents=True, exist_ok=True)
                for i in range(count):
                    (tree / name / f"{i}.hpp").touch()
            self.assertEqual(["src/uv has 26 files of its own; it must have at most 25"], too_large(tree))


if __name__ == "__main__":
    unittest.main()
