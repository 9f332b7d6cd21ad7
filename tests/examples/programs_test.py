"""What all example programs have in common: options that they refuse."""
import os
import subprocess
import unittest

PROGRAMS = dict(program.split("=", 1) for program in os.environ["PROGRAMS"].split(":"))
LONGEST = 20  # seconds; a test that waits longer has failed

NO_NUMBERS = ("nan", "-nan", "inf", "-1", "1e10", "", "1x")
NO_SEEDS = ("-1", "18446744073709551616", "1.5", "")
REFUSED = {
    "timer_server": {"--tokens": [""], "--secret": [""], "--requests-per-second": NO_NUMBERS, "--burst": NO_NUMBERS},
    "rpc_server": {"--loss": NO_NUMBERS, "--slow": NO_NUMBERS},
    "echo_load": {"--silent-share": NO_NUMBERS},
    "reservations": {"--confirmed": NO_NUMBERS, "--released": NO_NUMBERS, "--seed": NO_SEEDS},
}
REQUIRED = {"echo_load": ["--port", "1"]}


class Options(unittest.TestCase):
    def test_value_that_is_no_number_or_empty_is_refused_with_one_line(self):
        for program in REFUSED.keys() & PROGRAMS.keys():
            for option, values in REFUSED[program].items():
                for value in values:
                    with self.subTest(f"{program} {option} '{value}'"):
                        done = subprocess.run([PROGRAMS[program], *REQUIRED.get(program, []), option, value],
                                              capture_output=True, text=True, timeout=LONGEST)
                        self.assertEqual((done.returncode, done.stdout), (2, ""))
                        self.assertRegex(done.stderr, rf"\A{program}: {option}: .+\n\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
