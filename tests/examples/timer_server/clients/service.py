"""Starts a timer_server for a test, and endpoints that it calls."""
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.environ.get("TIMER_SERVER", "timer_server")
LONGEST = 20  # seconds; a test that waits longer has failed


def skip_without(*programs):
    """Ends the test as skipped, with a line, if a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            print(f"SKIPPED: {program} is not installed")
            sys.exit(77)


def wait_for(condition, what):
    """Returns the first value of `condition` that is true."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise TimeoutError(what)


class Service:
    """A timer_server with a file of its own, unless --store is given, from the first line of its log until it has ended."""

    def __init__(self, *options, folder=None, environment=None, is_ready=True):
        self._own_folder = None if folder else tempfile.TemporaryDirectory()
        self.folder = folder or self._own_folder.name
        self.log = os.path.join(self.folder, "log")
        store = [] if "--store" in options else ["--store", f"sqlite:{self.folder}/timers.db"]
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                [PROGRAM, "--listen", "127.0.0.1:0", *store, *options],
                stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        try:
            self.port = int(wait_for(self._listening, "timer_server did not start"))
            if is_ready:
                self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise

    def wait_until_ready(self):
        wait_for(lambda: self.ask("GET", "/readyz")[0] == 200, "timer_server is not ready")

    def _listening(self):
        if self.process.poll() is not None:
            raise RuntimeError("timer_server ended: " + self.lines())
        found = re.search(r'\blistening(?: address=|","address":").*:(\d+)["\n]', self.lines())
        return found and found[1]

    def lines(self):
        with open(self.log) as log:
            return log.read()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def ask(self, method, target, document=None, headers=None):
        """Returns the status and the body of an answer."""
        status, _, text = self.ask_whole(method, target, document, headers)
        return status, text

    def ask_whole(self, method, target, document=None, headers=None):
        """Returns the status, the header and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
        body = document if document is None or isinstance(document, str) else json.dumps(document)
        connection.request(method, target, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.ask("GET", "/metrics")[1], re.M)
        return float(found[1]) if found else None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Returns the exit code; negative: the signal that has ended it."""
        return self.process.wait(timeout=LONGEST)

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._own_folder:
            self._own_folder.cleanup()


class Callee:
    """An endpoint. It notes each call as (path, headers, body). `answer` returns the status. One that echoes answers with all that it
    was sent."""

    def __init__(self, answer=lambda path: 204, keeps_alive=True, echoes=False):
        calls = self.calls = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                calls.append((self.path, dict(self.headers), body))
                echo = f"{self.path}\n{self.headers}\n{body}".encode() if echoes else b""
                self.send_response(answer(self.path), self.headers.get("Authorization") if echoes else None)
                if echoes:
                    self.send_header("Location", f"http://{self.headers['Host']}{self.path}")
                self.send_header("Content-Length", str(len(echo)))
                if not keeps_alive:
                    self.send_header("Connection", "close")
                self.end_headers()
                if echo:
                    self.wfile.write(echo)

            do_POST = do_PUT = do_GET = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.address = f"127.0.0.1:{self._server.server_port}"

    def wait_for(self, path):
        """Returns the first call of this path."""
        return wait_for(lambda: next((call for call in list(self.calls) if call[0] == path), None), f"no call of {path}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
