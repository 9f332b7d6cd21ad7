"""wrk asks as fast as it can, and slowhttptest sends and reads as slowly as it may, while another client schedules timers and is called.

Each slow sender is cut by the limit that it runs into. A page of a list is so small that the system may take it for a slow reader.
The other client notices nothing, no timer is lost, and the memory of the service stays bounded.
"""
import http.client
import os
import re
import sqlite3
import subprocess
import threading
import time
import unittest

from service import Callee, Service, skip_without, wait_for

SLOW_HEADERS, SLOW_BODIES, SLOW_READERS = 150, 150, 20
SECONDS = 6
MOST_GROWTH = 40 * 1024  # KiB: what the limits allow 350 connections, a header and a body each, with room for the allocator


class Client(threading.Thread):
    """Schedules a timer every 10 ms until it is told to stop."""

    def __init__(self, service, callee):
        super().__init__(daemon=True)
        self.service, self.callee = service, callee
        self.statuses, self.slowest, self.stopped = [], 0.0, threading.Event()
        self.memory = 0  # of the service, in KiB, at most
        self.start()

    def run(self):
        while not self.stopped.wait(0.01):
            begin = time.monotonic()
            document = {"in": "50ms", "callback": f"http://{self.callee.address}/{len(self.statuses)}"}
            try:
                status = self.service.ask("PUT", f"/v1/timers/client-{len(self.statuses)}", document)[0]
            except (OSError, http.client.HTTPException) as error:  # an exception of a thread fails no test
                status = repr(error)
            self.statuses.append(status)
            self.slowest = max(self.slowest, time.monotonic() - begin)
            self.memory = max(self.memory, memory_of(self.service))


def memory_of(service):
    with open(f"/proc/{service.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])


def slowhttptest(*options):
    return subprocess.Popen(["slowhttptest", *options, "-l", str(SECONDS + 4), "-p", "3"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


class Attack(unittest.TestCase):
    def test_client_is_served_and_slow_connections_are_cut(self):
        options = ["--header-timeout", "2s", "--body-timeout", "2s", "--min-rate", "2000"]
        with Callee() as callee, Service(*options) as service:
            url = f"http://{service.address}"
            long_path = "x" * 7000
            for i in range(400):  # so that a list is longer than what a system takes at once
                service.ask("PUT", f"/v1/timers/long-{i}", {"in": "1h", "callback": f"http://127.0.0.1:9/{long_path}"})
            before = memory_of(service)
            client = Client(service, callee)
            slow = [slowhttptest("-H", "-c", str(SLOW_HEADERS), "-r", "100", "-i", "1", "-x", "8", "-u", url + "/"),
                    slowhttptest("-B", "-c", str(SLOW_BODIES), "-r", "100", "-i", "1", "-x", "8", "-s", "8192", "-u",
                                 url + "/v1/timers/slow"),
                    slowhttptest("-X", "-c", str(SLOW_READERS), "-r", "20", "-n", "1", "-z", "8", "-w", "64", "-y", "128",
                                 "-k", "40", "-u", url + "/v1/timers?state=pending&limit=1000")]
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "put.lua")
            wrk = subprocess.run(["wrk", "-t", "1", "-c", "32", "-d", f"{SECONDS}s", "-s", script, url], capture_output=True,
                                 text=True).stdout
            cut = 'timer_server_connections_cut_total{reason="%s"}'
            for reason, least in (("header", SLOW_HEADERS), ("body", SLOW_BODIES)):
                wait_for(lambda: service.metric(cut % reason) >= least, f"fewer than {least} were cut for their {reason}")
            for each in slow:
                each.terminate()
                each.wait()
            client.stopped.set()
            client.join()
            self.assertEqual(set(client.statuses), {201})
            wait_for(lambda: len(callee.calls) >= len(client.statuses), "a timer was not called")
            self.assertEqual(service.stop(), 0)

            print(f"client: {len(client.statuses)} timers, slowest answer {client.slowest * 1000:.0f} ms", flush=True)
            print(f"memory: {before} KiB before the attack, at most {client.memory} KiB in it", flush=True)
            self.assertLess(client.memory, before + MOST_GROWTH)
            print("wrk:", re.search(r"\d+ requests in .*", wrk)[0], flush=True)
            self.assertEqual(len(client.statuses), len({path for path, _, _ in callee.calls}))
            self.assertNotRegex(wrk, "Socket errors|Non-2xx")
            answered = int(re.search(r"(\d+) requests in", wrk)[1])
            with sqlite3.connect(f"{service.folder}/timers.db") as file:
                stored = file.execute("SELECT count(*) FROM tasks WHERE id LIKE 'wrk-%'").fetchone()[0]
            self.assertGreaterEqual(stored, answered)


if __name__ == "__main__":
    skip_without("wrk", "slowhttptest")
    unittest.main(verbosity=2)
