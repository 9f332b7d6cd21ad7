"""docs/reference/compile-errors.md shows the lines that compilers print: compile_errors_test.py ROOT COMPILER OPTION...

Each program of the page must be refused, with its line. Without its compiler a line is not checked.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

root, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
del sys.argv[1:]
COMPILERS = {"gcc": "g++", "clang": "clang++-14"}
INCLUDES = "#include <tickwheel/tickwheel.hpp>\n#include <memory>\n#include <utility>\n#include <vector>\n"
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\| (gcc|clang) \| `(.+)` \|$", re.MULTILINE)


def plain(text):
    """With the quotes of a keyboard. clang writes a member's address with quotes around it or without."""
    return re.sub(r"[‘’']", "", text)


class ThePage(unittest.TestCase):
    def test_shows_what_compilers_print(self):
        sections = SECTION.findall((root / "docs/reference/compile-errors.md").read_text())
        self.assertGreater(len(sections), 5)
        for title, text in sections:
            programs, lines = PROGRAM.findall(text), dict(LINE.findall(text))
            self.assertEqual((1, COMPILERS.keys()), (len(programs), lines.keys()), title)
            for name, compiler in COMPILERS.items():
                if shutil.which(compiler) is None:
                    continue
                with self.subTest(mistake=title, compiler=name):
                    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *options, "-x", "c++", "-"], text=True,
                                          input=INCLUDES + programs[0], stderr=subprocess.PIPE, check=False)
                    self.assertNotEqual(0, done.returncode)
                    self.assertIn(plain(lines[name]), plain(done.stderr))


unittest.main()
