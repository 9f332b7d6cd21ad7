"""gdb shows timers, services and wheels: gdb_test.py PRINTERS LIBRARY INSPECTED OTHER_VERSION."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PRINTERS, LIBRARY, INSPECTED, OTHER_VERSION = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
GDB = shutil.which("gdb")
SERVICE = r"tickwheel::timer_service: open, tick 131\.1 us, holds its loop, 0 refused"


def shown(program, *expressions, stop="look", preload=""):
    """What gdb prints for each expression when the program stops."""
    commands = ["set confirm off", "set width 0", "set style enabled off", f"source {PRINTERS}"]
    commands += [f"set exec-wrapper env LD_PRELOAD={preload}", f"break {stop}", "run"] + [f"print {expression}" for expression in expressions]
    run = subprocess.run([GDB, "-nx", "-batch", *(word for command in commands for word in ("-ex", command)), program],
                         stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if "Traceback" in run.stdout or "Python Exception" in run.stdout:
        raise AssertionError(run.stdout)
    values = [line.split(" = ", 1)[1] for line in run.stdout.splitlines() if re.match(r"\$\d+ = ", line)]
    if len(values) != len(expressions):
        raise AssertionError(run.stdout)
    return values


class Gdb(unittest.TestCase):
    # each value, and what gdb shows of it
    EXPECTED = {
        "manual.timers": SERVICE + r".* = \{wheel = tickwheel::wheel: 3 x 1024 slots, now 0, 2 armed "
                                   r"\(2 armed, 0 cancelled, 0 fired in all\), next visit at \d+\}$",
        "never_opened": "^tickwheel::timer_service: never opened$",
        "closed": "^tickwheel::timer_service: closed$",
        "peer.request": "^tickwheel::member_timer<.*>: armed, due in 5 s, handler inspected::session::on_request$",
        "peer.idle": "tickwheel::timer: armed, due in 1 min, handler .*on_silence",
        "of_never_opened.request": "^tickwheel::member_timer<.*>: not armed, handler inspected::session::on_request$",
        "of_closed.request": "^tickwheel::member_timer<.*>: not armed, handler inspected::session::on_request$",
        "peer": "timers = " + SERVICE + r".*request = tickwheel::member_timer<.*>: armed, due in 5 s",
        "plain": "^tickwheel::timer: not armed, unref, handler .*(_FUN|__invoke)",
        "bare": "^tickwheel::wheel: 2 x 16 slots, now 5, 1 armed",
        "entry": "^tickwheel::wheel_entry: armed for tick 9, handler .*(_FUN|__invoke)",
    }

    def test_values_in_all_their_states(self):
        for (expression, expected), value in zip(self.EXPECTED.items(), shown(INSPECTED, *self.EXPECTED)):
            with self.subTest(expression):
                self.assertRegex(value, expected)

    def test_library_without_debug_symbols_shows_less(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = pathlib.Path(folder) / LIBRARY.name
            subprocess.run(["objcopy", "--strip-debug", LIBRARY, stripped], check=True)
            service, timer = shown(INSPECTED, "manual.timers", "peer.request", preload=stripped)
            self.assertRegex(service, SERVICE + r" = \{wheel = tickwheel::wheel: ")
            self.assertRegex(timer, "^tickwheel::member_timer<.*>: armed, due in 5 s, handler inspected::session::on_request$")

    def test_wheel_of_another_version_is_a_line(self):
        value, = shown(OTHER_VERSION, "foreign", stop="main")
        self.assertRegex(value, r"^tickwheel::wheel: cannot be shown \(.*\); is tickwheel of another version, or built without -g\?$")


if GDB is None:
    print("SKIPPED: gdb is not installed; on Debian: apt install gdb")
    sys.exit(77)
probe = subprocess.run([GDB, "-nx", "-batch", "-ex", "break main", "-ex", "run", OTHER_VERSION], stdin=subprocess.DEVNULL, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
if "Breakpoint 1, main" not in probe.stdout:
    print(f"SKIPPED: gdb cannot run a program here:\n{probe.stdout}")
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
