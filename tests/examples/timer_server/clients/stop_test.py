"""The end of a service: what one signal does, and what a second one does."""
import contextlib
import json
import signal
import socket
import sqlite3
import tempfile
import time
import unittest

from service import Callee, Service, wait_for


def silent_callee():
    """An endpoint that accepts a call and never answers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}/"


def start_a_call(service, callback):
    status, _ = service.ask("PUT", "/v1/timers/a", {"in": "0s", "callback": callback})
    assert status == 201
    wait_for(lambda: service.metric("timer_server_callbacks_running") == 1, "the call did not begin")


@contextlib.contextmanager
def locked(service):
    """Another program holds the store's file, which the service then cannot write."""
    with contextlib.closing(sqlite3.connect(f"{service.folder}/timers.db", isolation_level=None, timeout=20)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


class Stop(unittest.TestCase):
    def test_first_signal_drains_and_second_signal_ends_at_once(self):
        for second in (signal.SIGTERM, signal.SIGINT):
            listener, callback = silent_callee()
            with listener, Service("--drain", "1h") as service:
                start_a_call(service, callback)
                service.signal(signal.SIGTERM)
                wait_for(lambda: " draining\n" in service.lines(), "it does not drain")
                time.sleep(0.1)
                self.assertIsNone(service.process.poll(), "a call still runs")
                service.signal(second)
                self.assertEqual(service.wait(), -second)

    def test_stop_that_cuts_a_call_counts_no_attempt(self):
        for options, stops in (("--drain", "100ms"), [signal.SIGTERM]), (("--drain", "1h"), [signal.SIGTERM, signal.SIGTERM]):
            for period in {}, {"every": "1h"}:
                with tempfile.TemporaryDirectory() as folder:
                    self.assert_stops_do_not_count(folder, ["--max-attempts", "1", *options], stops, period)

    def assert_stops_do_not_count(self, folder, options, stops, period):
        listener, callback = silent_callee()
        listener.settimeout(20)
        with listener:
            for start in range(4):  # a timer dies by three crashes
                with Service(*options, folder=folder) as service:
                    if start == 0:
                        document = {"in": "0s", "callback": callback, **period}
                        self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 201)
                    with listener.accept()[0] as call:
                        call.settimeout(20)
                        self.assertIn(b"\r\nTimer-Attempt: 1\r\n", call.recv(65536))
                        timer = json.loads(service.ask("GET", "/v1/timers/a")[1])
                        self.assertEqual((timer["state"], timer["attempts"], timer["lost"]), ("running", 1, 0))
                        for number in stops:
                            service.signal(number)
                            wait_for(lambda: " draining\n" in service.lines(), "it does not drain")
                        service.wait()
                        self.assertIn(" left_running=1\n", service.lines())

    def test_second_signal_does_not_wait_for_a_lost_store(self):
        listener, callback = silent_callee()
        with listener, Service("--drain", "1h") as service:
            start_a_call(service, callback)
            with locked(service):
                service.signal(signal.SIGTERM)
                wait_for(lambda: " draining\n" in service.lines(), "it does not drain")
                service.signal(signal.SIGTERM)
                self.assertEqual(service.wait(), -signal.SIGTERM)

    def test_call_that_was_cut_by_second_signal_is_made_again(self):
        listener, callback = silent_callee()
        with listener, Service("--drain", "1h") as service:
            start_a_call(service, callback)
            service.signal(signal.SIGTERM)
            wait_for(lambda: " draining\n" in service.lines(), "it does not drain")
            service.signal(signal.SIGTERM)
            service.wait()
            listener.settimeout(20)
            listener.accept()[0].close()
            with Service(folder=service.folder):
                again, _ = listener.accept()
                with again:
                    again.settimeout(20)
                    self.assertIn(b"\r\nTimer-Attempt: 1\r\n", again.recv(65536))

    def test_drain_ends_after_its_limit_and_leaves_calls_to_the_next_start(self):
        listener, callback = silent_callee()
        with listener, Service("--drain", "300ms") as service:
            start_a_call(service, callback)
            self.assertEqual(service.stop(), 0)
            self.assertIn(" left_running=1\n", service.lines())

    def test_client_that_sends_half_a_request_ends_with_the_drain(self):
        with Service("--drain", "300ms") as service, socket.create_connection(("127.0.0.1", service.port)) as peer:
            peer.sendall(b"PUT /v1/timers/a HTTP/1.1\r\n")
            wait_for(lambda: service.metric("timer_server_connections") == 2, "the connection is not accepted")
            self.assertEqual(service.stop(), 0)
            self.assertEqual(service.lines().count(" stopped "), 1)

    def test_drain_ends_early_if_store_is_lost_and_nothing_runs(self):
        with Service("--drain", "1h") as service, locked(service):
            self.assertEqual(service.stop(), 0)
            self.assertIn(" left_running=0\n", service.lines())

    def test_drain_waits_for_a_lost_store_that_must_note_the_end_of_a_call(self):
        with Callee(lambda path: time.sleep(0.5) or 204) as callee, Service("--drain", "1h") as service:
            start_a_call(service, f"http://{callee.address}/due")
            with locked(service):
                service.signal(signal.SIGTERM)
                time.sleep(5)  # longer than it waits for the handover
                self.assertIsNone(service.process.poll(), "the end of the call is not noted")
            self.assertEqual(service.wait(), 0)
            self.assertIn(" finished=1 ", service.lines())

    def test_drain_waits_for_a_call_that_ends(self):
        with Callee(lambda path: time.sleep(0.5) or 204) as callee, Service() as service:
            start_a_call(service, f"http://{callee.address}/due")
            self.assertEqual(service.stop(), 0)
            self.assertIn(" finished=1 ", service.lines())
            self.assertIn(" left_running=0\n", service.lines())


if __name__ == "__main__":
    unittest.main(verbosity=2)
