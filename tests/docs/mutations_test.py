"""The table of mutations in docs/verification.md has a row for each patch in tests/mutations, in their order, and no other. Each patch
applies to the sources as they are, and names tests that exist.

    mutations_test.py ROOT            compares
    mutations_test.py ROOT --write    writes the table anew
"""
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

HEAD = "| | what is broken | which test fails for it |\n|---|---|---|\n"
TEST = re.compile(r"^(TYPED_TEST|TEST(?:_[FP])?)\((\w+),\s*(\w+)\)", re.MULTILINE)
TEST_IN_C = re.compile(r"^\w*TEST(?:_WITH)?\((\w+)", re.MULTILINE)
NAME = re.compile(r"^(?:\*|.*?/)?(\w+\.\w+)(?:/.*)?$")  # less what instantiates a test that has parameters

root = pathlib.Path(sys.argv[1])
document = root / "docs/verification.md"
patches = sorted((root / "tests/mutations").glob("*.patch"))


def fields_of(patch):
    """What the header of a patch says, by the name of each line."""
    fields = {}
    for line in patch.read_text().split("\n--- ", 1)[0].splitlines():
        name, _, text = line.partition(":")
        fields.setdefault(name, []).append(text.strip())
    return fields


def row_of(patch):
    """Its row, which begins with the number of the promise or, where it has none, with the part of the library."""
    fields = fields_of(patch)
    number = re.match(r"\d+", fields["Promise"][0])
    key = number[0] if number else "C" if patch.name.startswith("c-") else patch.name.partition("-")[0]
    tests = ", ".join(NAME.sub(r"`\1`", test.split()[1].replace("/*.", ".")) for test in fields["Fails"])
    return f"| {key} | {fields['Broken'][0]} | {tests} |\n"


def table():
    """What stands before the rows, the rows, and what stands behind them."""
    before, _, rest = document.read_text().partition(HEAD)
    rows, _, behind = rest.partition("\n\n")
    return before, rows + "\n", behind


class TheTableOfMutations(unittest.TestCase):
    def test_is_what_the_patches_say(self):
        self.assertGreater(len(patches), 50)
        difference = difflib.unified_diff(
            table()[1].splitlines(), "".join(map(row_of, patches)).splitlines(), "docs/verification.md", "tests/mutations", n=0
        )
        difference = "\n".join(difference)
        self.assertFalse(difference, f"write it by python3 tests/docs/mutations_test.py . --write:\n{difference}")


def tests_of(file):
    """The macro of each test in a source, by the name of the test."""
    text = (root / "tests" / file).read_text()
    if file.endswith(".c"):
        return {f"c.{name}": "TEST" for name in TEST_IN_C.findall(text)}
    return {f"{suite}.{name}": macro for macro, suite, name in TEST.findall(text)}


class Patches(unittest.TestCase):
    def test_apply_to_the_sources(self):
        if shutil.which("patch") is None:
            self.skipTest("patch is not installed; on Debian: apt install patch")
        apply = ["patch", "--dry-run", "--force", "--strip=1", "--fuzz=0", f"--directory={root}"]
        for patch in patches:
            with self.subTest(patch.name):
                run = subprocess.run([*apply, f"--input={patch.resolve()}"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual(run.returncode, 0, run.stdout)

    def test_name_tests_that_exist(self):
        for patch in patches:
            for file, test in map(str.split, fields_of(patch)["Fails"]):
                with self.subTest(patch.name, test=test):
                    macros = tests_of(file)
                    name = NAME.sub(r"\1", test.replace("/*.", "."))
                    self.assertIn(name, macros)
                    # one that has parameters is instantiated under other names
                    self.assertEqual(test != name, macros[name] not in ("TEST", "TEST_F"))


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        before, _, behind = table()
        document.write_text(before + HEAD + "".join(map(row_of, patches)) + "\n" + behind)
    else:
        unittest.main(argv=sys.argv[:1])
