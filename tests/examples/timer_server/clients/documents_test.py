"""The man page, the guide and the unit name what the program has: its options and its metrics."""
import os
import re
import subprocess
import unittest

from service import PROGRAM, Service


def text_of(variable):
    with open(os.environ[variable]) as document:
        return document.read()


def options_of_program():
    text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True, timeout=20).stdout
    return set(re.findall(r"(?m)^ +(?:-h,)?(--[a-z-]+)", text)) - {"--help"}


class Documents(unittest.TestCase):
    def test_man_page_has_each_option(self):
        described = re.findall(r"(?m)^\.TP\n\.BI (\\-\\-[a-z\\-]+) ", text_of("MANUAL"))
        self.assertEqual(sorted(option.replace("\\-", "-") for option in described), sorted(options_of_program()))

    def test_guide_and_unit_have_only_options_of_the_program(self):
        guide = set(re.findall(r"`(--[a-z-]+)|timer_server (--[a-z-]+)", text_of("GUIDE")))
        named = {option for pair in guide for option in pair if option} | set(re.findall(r"(?<= )--[a-z-]+", re.search("ExecStart=.*", text_of("UNIT"))[0]))
        self.assertLessEqual(named - {"--help"}, options_of_program())

    def test_guide_has_each_metric(self):
        with Service() as service:
            metrics = set(re.findall(r"(?m)^# TYPE (timer_server_\w+) ", service.ask("GET", "/metrics")[1]))
        named = set(re.findall(r"`(timer_server_\w+)`", text_of("GUIDE")))
        self.assertEqual(metrics, named)


if __name__ == "__main__":
    unittest.main(verbosity=2)
