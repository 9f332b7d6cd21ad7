"""The guess which service a timer belongs to must be a branch. A compiler that makes a data dependency of it undoes it unseen.

last_service_test.py INCLUDE COMPILER...  compiles a load through the guess to assembly, at each level of optimisation
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

INCLUDE, COMPILER = sys.argv[1], sys.argv[2:]
SOURCE = """
#include <tickwheel/uv/detail/last_service.hpp>
#if !defined TICKWHEEL_GUESSES_SERVICE || !defined __x86_64__
#error no guess
#endif
extern "C" std::uintptr_t load(const std::uintptr_t* timer) {
  const std::uintptr_t service = %s;
  return service != 0 ? *reinterpret_cast<std::uintptr_t*>(service + 4096) : 0;
}
"""
GUESSED = "tickwheel::detail::guessed_service(*timer, 5)"
# what a guess must not be: the compiler knows that both are equal, or selects one
FOLDED = "(*timer == tickwheel::detail::last_service ? tickwheel::detail::last_service : *timer)"


def assembly(address, options):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "load.cpp"
        source.write_text(SOURCE % address)
        run = subprocess.run([*COMPILER, "-std=c++20", f"-I{INCLUDE}", *options, "-S", "-o", "-", source], capture_output=True, text=True)
    return None if "no guess" in run.stderr else run.stdout if run.returncode == 0 else run.stderr


def depends_on_timer(text):
    """Returns whether the load through the address, where the guess is right, needs the word of the timer, which is at (%rdi)."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    from_timer = set()
    here, jumps = lines.index("load:"), 0
    while here + 1 < len(lines) and jumps < 10:
        here += 1
        found = re.match(r"(\w+)\s+(.*)", lines[here])
        if not found:
            continue
        operation, operands = found.groups()
        if operation.startswith("cmov"):
            return True
        if operation == "jmp":
            here, jumps = lines.index(operands + ":"), jumps + 1
        elif through := re.search(r"4096\((%\w+)", operands):
            return through.group(1) in from_timer
        elif operation.startswith("mov") and "," in operands:
            source, target = operands.rsplit(",", 1)
            (from_timer.add if source == "(%rdi)" or source in from_timer else from_timer.discard)(target.strip())
    raise ValueError("no load through the address:\n" + text)


class Guess(unittest.TestCase):
    def test_is_a_branch(self):
        for options in ["-O1"], ["-O2"], ["-O3"], ["-O3", "-fPIC"]:
            with self.subTest(options=options):
                self.assertFalse(depends_on_timer(assembly(GUESSED, options)))

    def test_would_be_noticed(self):
        self.assertTrue(depends_on_timer(assembly(FOLDED, ["-O3"])))


if assembly(GUESSED, ["-O2"]) is None:
    print("SKIPPED: the compiler's platform does not guess, or its assembly is not read here")
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
