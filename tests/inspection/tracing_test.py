"""The bpftrace scripts show what a live loop does: tracing_test.py SCRIPTS LIBRARY INSPECTED. Runs in ./dev test --long."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

SCRIPTS, LIBRARY, INSPECTED = (pathlib.Path(path).resolve() for path in sys.argv[1:4])


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


class Scripts(unittest.TestCase):
    def check(self, script, *expected):
        """Runs the script beside a live loop, until its output matches; for up to a minute."""
        with subprocess.Popen([INSPECTED, "loop"], stdin=subprocess.PIPE) as program:
            for seconds in (4, 8, 16, 32):
                with subprocess.Popen([BPFTRACE, SCRIPTS / script, LIBRARY], text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT) as tracer:
                    try:
                        tracer.wait(seconds)
                    except subprocess.TimeoutExpired:
                        tracer.send_signal(signal.SIGINT)
                    output = tracer.stdout.read()
                if all(text in output for text in expected):
                    break
            program.stdin.close()
        for text in expected:
            if text not in output:
                self.fail(f"{script} has not written {text!r}, but at its end:\n{output[-2000:]}")

    def test_lateness_is_a_histogram_for_each_handler(self):
        self.check("tickwheel-lateness.bt", "@late_us[", "session::on_request", "session::on_blocked", "@late_under_load[",
                   "@waited_us_for[", "|")

    def test_stalls_have_a_length_and_the_slowest_handler(self):
        self.check("tickwheel-stalls.bt", "STALL us", "session::on_blocked", "@stall_us[inspected]")

    def test_arms_are_counted_by_caller_and_handler(self):
        # it is armed by its own handler
        self.check("tickwheel-armed.bt", "@armed_per_second[tickwheel::detail::member_call<", ">::run(tickwheel::wheel_entry&)]: ")


if "TICKWHEEL_TEST_LONG" not in os.environ:
    skip("bpftrace scripts: only in ./dev test --long")
BPFTRACE = shutil.which("bpftrace")
if BPFTRACE is None:
    skip("bpftrace scripts: bpftrace is not installed; on Debian: apt install bpftrace")
trial = subprocess.run([BPFTRACE, "-e", 'BEGIN { printf("traces\\n"); exit(); }'], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
if "traces" not in trial.stdout:
    skip(f"bpftrace scripts: the kernel or our rights do not let bpftrace run: {trial.stdout.strip()}")
unittest.main(argv=sys.argv[:1])
