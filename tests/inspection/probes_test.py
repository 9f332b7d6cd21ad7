"""The library has each probe with its arguments, and no other: probes_test.py LIBRARY INSPECTED."""
import re
import shutil
import subprocess
import sys
import unittest

LIBRARY, INSPECTED = sys.argv[1:3]
GDB = shutil.which("gdb")

# as in src/uv/probes.hpp; the size of each in bytes, negative if it is signed
ADDRESS, TIME = "8", "-8"
PROBES = {
    "arm": [ADDRESS, ADDRESS, TIME, ADDRESS],
    "fire": [ADDRESS, ADDRESS, TIME],
    "late": [ADDRESS, TIME, TIME, TIME, TIME, ADDRESS],
    "stall": [TIME, ADDRESS, TIME],
}


class Probes(unittest.TestCase):
    def setUp(self):
        notes = subprocess.run(["readelf", "--notes", "--wide", LIBRARY], text=True, check=True, stdout=subprocess.PIPE).stdout
        self.notes = re.findall(r"Provider: tickwheel\s+Name: (\w+)\s+Location: 0x\w+, Base: 0x\w+, Semaphore: (0x\w+)\s+Arguments: (.*)",
                                notes)

    def test_each_probe_is_there_once(self):
        self.assertEqual(sorted(name for name, _, _ in self.notes), sorted(PROBES))

    def test_arguments_are_those_that_the_scripts_read(self):
        for name, _, arguments in self.notes:
            with self.subTest(name):
                self.assertEqual([word.split("@")[0] for word in arguments.split()], PROBES[name])

    def test_tracers_are_counted_in_one_word(self):
        semaphores = {int(semaphore, 16) for _, semaphore, _ in self.notes}
        self.assertNotIn(0, semaphores)
        self.assertEqual(len(semaphores), 1)

    def check(self, probe, conditions, stops=1, arguments=""):
        """The conditions hold when the program comes to the probe."""
        if GDB is None:
            self.skipTest("gdb, which can stop at a probe, is not installed; on Debian: apt install gdb")
        commands = ["set confirm off", "set width 0", "break main", f"run {arguments}", f"break -probe-stap tickwheel:{probe}"]
        commands += ["continue"] * stops + [f"output {value}" for value in conditions]
        run = subprocess.run([GDB, "-nx", "-batch", *(word for command in commands for word in ("-ex", command)), INSPECTED],
                             stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertTrue(run.stdout.endswith("true" * len(conditions)), run.stdout)

    def test_arm_tells_timer_handler_and_due_time(self):
        due = "($_probe_arg2 - 3600000000000 - 5000000000)"  # the clock begins at one hour
        self.check("arm", ["($_probe_arg0 == (unsigned long)&peer.request)", "($_probe_arg1 == (unsigned long)peer.request.run_)",
                           f"({due} >= 0)", f"({due} < 131072)", "($_probe_arg3 != 0)"])

    def test_arm_is_also_reached_by_the_fast_path(self):
        self.check("arm", ["($_probe_arg0 >= (unsigned long)&peer.idle)", "($_probe_arg0 < (unsigned long)(&peer.idle + 1))"], stops=2)

    def test_arm_tells_the_callback_of_a_c_timer(self):
        callback = "($_probe_arg1 == (unsigned long)&on_c_timeout)"
        self.check("arm", [callback], arguments="c")
        self.check("arm", [callback], stops=2, arguments="c")

    def test_fire_tells_how_late_a_handler_is(self):
        self.check("fire", ["($_probe_arg1 != 0)", "($_probe_arg2 >= 0)", "($_probe_arg2 < 2000000)"])

    def test_late_tells_its_causes(self):
        self.check("late", ["($_probe_arg1 > 18000000)", "($_probe_arg4 > 18000000)", "($_probe_arg4 < $_probe_arg1)",
                            "($_probe_arg5 != 0)", "($_probe_arg5 != $_probe_arg0)"])

    def test_stall_tells_its_length_and_the_slowest_handler(self):
        self.check("stall", ["($_probe_arg0 == 10000000)", "($_probe_arg1 != 0)", "($_probe_arg2 == 20000000)"])


unittest.main(argv=sys.argv[:1])
