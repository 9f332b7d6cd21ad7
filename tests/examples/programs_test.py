"""What all example programs have in common: options that they refuse, and closed descriptors."""
import os
import signal
import subprocess
import tempfile
import time
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


# the options of a server with which it takes a port that is free
SERVERS = {name: ["--port", "0"] for name in ("echo_server", "worker_pool", "rpc_server", "http_server", "order_timeouts")}
SERVERS["timer_server"] = ["--listen", "127.0.0.1:0"]


def catches(process, number):
    """Whether a process has a handler for this signal."""
    with open(f"/proc/{process.pid}/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


class ClosedDescriptors(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_server_ends_well_without_its_standard_descriptors(self):
        for server in SERVERS.keys() & PROGRAMS.keys():
            for closed in (0, 1, 2), (0,), (1,), (2,):
                with self.subTest(f"{server}, closed: {closed}"), tempfile.TemporaryDirectory() as folder:
                    process = subprocess.Popen([PROGRAMS[server], *SERVERS[server]], cwd=folder, stdin=subprocess.DEVNULL,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                               preexec_fn=lambda: [os.close(descriptor) for descriptor in closed])
                    try:
                        end = time.monotonic() + LONGEST
                        while process.poll() is None and not catches(process, signal.SIGTERM) and time.monotonic() < end:
                            time.sleep(0.01)
                        for descriptor in closed:
                            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"), "/dev/null")
                        process.terminate()
                        self.assertEqual(process.wait(timeout=LONGEST), 0)
                    finally:
                        process.kill()
                        process.wait()


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

    def test_unknown_option_is_refused_by_each_program(self):
        for program in PROGRAMS:
            with self.subTest(program):
                done = subprocess.run([PROGRAMS[program], "--nonsense"], capture_output=True, text=True, timeout=LONGEST)
                self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_option_of_the_library_has_the_name_of_the_command_line(self):
        for program in {"timer_server", "order_timeouts"} & PROGRAMS.keys():
            done = subprocess.run([PROGRAMS[program], "--lease", "5ms"], capture_output=True, text=True, timeout=LONGEST)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"{program}: --lease: it is shorter than 100 ms\n")

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_help_that_cannot_be_written_is_a_failure(self):
        for program in PROGRAMS:
            with self.subTest(program), open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAMS[program], "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LONGEST)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stderr, f"{program}: cannot write to stdout\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
