"""`./dev COMMAND --help` tells of the command, whatever its program does with other options."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()
USAGE = (ROOT / "tools/usage.txt").read_text()
COMMANDS = dict.fromkeys(re.findall(r"^  ([a-z]+)", USAGE, re.M))  # in their order, each once
OPTIONS = ("--help", "-h")


def dev(*arguments):
    return subprocess.run([ROOT / "dev", *arguments], capture_output=True, text=True, timeout=60)


class Help(unittest.TestCase):
    def test_each_command_tells_of_itself(self):
        parts = []
        for command in COMMANDS:
            if command == "bench":
                parts += re.findall(r"^  bench.*\n(?:    .*\n)*", USAGE, re.M)
                continue  # it lists the parts of a report, for which it needs its packages
            printed = set()
            for option in OPTIONS:
                done = dev(command, option)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                printed.add(done.stdout)
            self.assertEqual(len(printed), 1, command)
            parts += printed
        self.assertIn("".join(parts), USAGE)
        self.assertEqual(sum(part.count("\n") for part in parts), len(re.findall(r"^  .+$", USAGE, re.M)))

    def test_unknown_command_is_refused(self):
        for option in OPTIONS:
            done = dev("unknown", option)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("unknown command: unknown", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
