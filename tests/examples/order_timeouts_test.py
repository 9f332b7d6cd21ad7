"""How order_timeouts starts and ends: with silent shops, and without its store."""
import contextlib
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["ORDER_TIMEOUTS"]
LONGEST = 20  # seconds; a test that waits longer has failed
REQUEST = MESSAGE = struct.Struct("=QqII")  # order, due, verb or news, attempt
PLACE, ACKNOWLEDGE = 0, 2
PLACED, CANCEL = 0, 5


def wait_for(condition, what):
    """Returns the first value of `condition` that is true."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise TimeoutError(what)


class Server:
    def __init__(self, folder, *options):
        self.log = f"{folder}/log"
        store = [] if "--store" in options else ["--file", f"{folder}/orders.db"]
        with open(self.log, "w") as out:
            self.process = subprocess.Popen([PROGRAM, *(["--port", "0"] if "--port" not in options else []), *store, *options],
                                            stdout=out, stderr=subprocess.STDOUT)

    def lines(self):
        with open(self.log) as log:
            return log.read()

    def wait_for_line(self, pattern):
        return wait_for(lambda: re.search(pattern, self.lines(), re.M), f"there is no line {pattern}")

    def port(self):
        return int(self.wait_for_line(r"^listening on 127\.0\.0\.1:(\d+)$")[1])

    def stop(self):
        """Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=LONGEST)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Shop:
    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=LONGEST)

    def send(self, verb, order):
        self._socket.sendall(REQUEST.pack(order, time.time_ns(), verb, 0))

    def receive(self):
        """Returns the order, the news and the attempt of the next message."""
        message = b""
        while len(message) < MESSAGE.size:
            part = self._socket.recv(MESSAGE.size - len(message))
            if not part:
                raise EOFError("the server has closed the connection")
            message += part
        order, _, news, attempt = MESSAGE.unpack(message)
        return order, news, attempt

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()


class Stop(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_shop_that_never_acknowledges_is_told_again_by_the_next_server(self):
        for start in range(4):  # a task is dead when three servers have lost it
            with Server(self.folder, "--drain", "100ms") as server, Shop(server.port()) as shop:
                if start == 0:
                    shop.send(PLACE, 7)
                    self.assertEqual(shop.receive()[:2], (7, PLACED))
                self.assertEqual(shop.receive(), (7, CANCEL, 1))
                self.assertEqual(server.stop(), 0)
                self.assertIn("drained: ", server.lines())

    def test_second_signal_does_not_wait_for_acknowledgements(self):
        with Server(self.folder, "--drain", "1h") as server, Shop(server.port()) as shop:
            shop.send(PLACE, 7)
            self.assertEqual(shop.receive()[:2], (7, PLACED))
            self.assertEqual(shop.receive()[:2], (7, CANCEL))
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not self.takes_shops(server.port()), "it does not drain")
            self.assertIsNone(server.process.poll())
            self.assertEqual(server.stop(), 0)

    def takes_shops(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=LONGEST).close()
            return True
        except ConnectionRefusedError:
            return False

    def test_acknowledgement_ends_the_drain(self):
        with Server(self.folder, "--drain", "1h") as server, Shop(server.port()) as shop:
            shop.send(PLACE, 7)
            self.assertEqual(shop.receive()[:2], (7, PLACED))
            self.assertEqual(shop.receive()[:2], (7, CANCEL))
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not self.takes_shops(server.port()), "it does not drain")
            shop.send(ACKNOWLEDGE, 7)
            self.assertEqual(server.process.wait(timeout=LONGEST), 0)
            self.assertIn(" 1 finished", server.lines())

    def assert_waits_and_ends(self, *options):
        with Server(self.folder, *options) as server:
            server.wait_for_line("^order_timeouts: waits for the store: .+$")
            self.assertEqual(server.stop(), 0)
            self.assertNotIn("listening", server.lines())

    def test_server_whose_file_is_locked_says_so_and_ends(self):
        with Server(self.folder) as server:
            server.port()
            server.stop()
        with contextlib.closing(sqlite3.connect(f"{self.folder}/orders.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            self.assert_waits_and_ends()

    @unittest.skipIf("POSTGRES" not in os.environ, "PostgreSQL is not built in")
    def test_server_whose_database_is_away_says_so_and_ends(self):
        self.assert_waits_and_ends("--store", "postgres", "--conninfo", f"host={self.folder}")


class Start(unittest.TestCase):
    def test_address_in_use_is_named_before_a_file_is_made(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with Server(folder, "--port", str(port)) as server:
                self.assertEqual(server.process.wait(timeout=LONGEST), 2)
                self.assertEqual(server.lines(), f"order_timeouts: 127.0.0.1:{port}: address already in use\n")
            self.assertEqual(os.listdir(folder), ["log"])

    def test_option_of_the_other_store_is_refused(self):
        cases = [("--conninfo", "host=h", "sqlite", "postgres"), ("--name", "a", "sqlite", "postgres")]
        if "POSTGRES" in os.environ:
            cases.append(("--file", "orders.db", "postgres", "sqlite"))
        for option, value, store, needed in cases:
            with self.subTest(option), tempfile.TemporaryDirectory() as folder:
                with Server(folder, "--store", store, option, value) as server:
                    self.assertEqual(server.process.wait(timeout=LONGEST), 2)
                    self.assertEqual(server.lines(), f"order_timeouts: {option}: it needs --store {needed}\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
