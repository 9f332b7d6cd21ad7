"""How the shop of order_timeouts counts lateness: against a server that confirms and cancels as each test decides."""
import os
import re
import socket
import struct
import subprocess
import time
import unittest

LOAD = os.environ["ORDER_TIMEOUTS_LOAD"]
LONGEST = 20  # seconds; a test that waits longer has failed
ORDERS = 10
LATE = 1  # seconds
REQUEST = MESSAGE = struct.Struct("=QqII")  # order, due, verb or news, attempt
PLACE, REPORT = 0, 3
PLACED, CANCEL, OWNS = 0, 5, 6


def placed(order, due):
    return MESSAGE.pack(order, 0, PLACED, 0)


def cancel(order, due):
    return MESSAGE.pack(order, due, CANCEL, 1)


class Server:
    """Answers each order with `at_once`, and with `late` once it has been due for `LATE`."""

    def __init__(self, at_once, late):
        self._at_once, self._late = at_once, late
        self._orders = []
        self._received = b""

    def serve(self, connection):
        """Returns when the shop closes the connection."""
        connection.settimeout(0.01)
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            try:
                received = connection.recv(65536)
                if not received:
                    return
            except socket.timeout:
                received = b""
            self._received += received
            while len(self._received) >= REQUEST.size:
                self._answer(connection, *REQUEST.unpack(self._received[:REQUEST.size]))
                self._received = self._received[REQUEST.size:]
            self._send_late(connection)
        raise TimeoutError("the shop does not end")

    def _answer(self, connection, order, due, verb, _):
        if verb == REPORT:
            connection.sendall(MESSAGE.pack(1, 0, OWNS, 0))
        elif verb == PLACE:
            self._orders.append((order, due))
            connection.sendall(b"".join(make(order, due) for make in self._at_once))

    def _send_late(self, connection):
        if len(self._orders) == ORDERS and time.time_ns() > max(due for _, due in self._orders) + LATE * 1e9:
            # in one piece, so that the shop reads the confirmations and the cancellations together
            connection.sendall(b"".join(make(*order) for make in self._late for order in self._orders))
            self._orders = []


class Lateness(unittest.TestCase):
    def figures_of(self, **server):
        """Returns the lateness at most in ms, its count, the number of late confirmations, and their delay at most in s."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LONGEST)
            load = subprocess.Popen([LOAD, "--port", str(listener.getsockname()[1]), "--orders", str(ORDERS), "--paid", "0", "--rate",
                                     "1000", "--shortest-limit", "1s", "--longest-limit", "1s"], stdout=subprocess.PIPE, text=True)
            try:
                with listener.accept()[0] as connection:
                    Server(**server).serve(connection)
                said = load.communicate(timeout=LONGEST)[0]
            finally:
                load.kill()
                load.wait()
        self.assertEqual(load.returncode, 0, said)
        lateness = re.search(r"lateness before an outage .* at most (\S+) ms, of (\d+)$", said, re.M)
        late_confirmations = re.search(r"confirmed after they were due +(\d+), at most (\S+) s$", said, re.M)
        self.assertTrue(late_confirmations, said)
        return float(lateness[1]), int(lateness[2]), int(late_confirmations[1]), float(late_confirmations[2])

    def test_order_confirmed_in_time_is_late_from_its_due_time(self):
        most, count, late_confirmations, _ = self.figures_of(at_once=[placed], late=[cancel])
        self.assertGreaterEqual(most, 1000 * LATE)
        self.assertEqual((count, late_confirmations), (ORDERS, 0))

    def test_order_confirmed_after_it_was_due_is_late_from_its_confirmation(self):
        most, count, late_confirmations, delay = self.figures_of(at_once=[], late=[placed, cancel])
        self.assertLess(most, 1000 * LATE)
        self.assertEqual((count, late_confirmations), (ORDERS, ORDERS))
        self.assertGreaterEqual(delay, LATE)

    def test_cancellation_that_is_the_confirmation_has_no_lateness(self):
        _, count, late_confirmations, delay = self.figures_of(at_once=[], late=[cancel, placed])
        self.assertEqual((count, late_confirmations), (0, ORDERS))
        self.assertGreaterEqual(delay, LATE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
