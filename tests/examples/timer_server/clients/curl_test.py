"""curl, as the guide shows it: each block of docs/timer-server.md is run, and its answer is the one that the guide says."""
import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from service import Callee, Service, skip_without

with open(os.environ["GUIDE"]) as guide:
    GUIDE = guide.read()


def blocks_that_begin_with(command):
    """The indented blocks of the guide that begin with a command."""
    blocks = re.findall(r"(?m)(?:^    \S.*\n|^      .*\n)+", GUIDE)
    return [block for block in blocks if block.lstrip().startswith(command)]


def run(block, folder=None):
    """Returns the status of the answer, and its body."""
    done = subprocess.run(["bash", "-ec", "curl() { command curl --silent --show-error --write-out '\\n%{http_code}' \"$@\"; }\n" + block],
                          capture_output=True, text=True, timeout=20, cwd=folder)
    if done.returncode != 0:
        raise AssertionError(block + done.stderr)
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


class Curl(unittest.TestCase):
    def test_each_block_of_the_guide_is_answered_as_it_says(self):
        expected = [201, 200, 204, 201, 201, 200, 200, 200]
        blocks = [block for block in blocks_that_begin_with("curl ") if "$(cat tokens)" not in block]
        self.assertEqual(len(blocks), len(expected), blocks)
        with Callee() as callee, Service() as service:
            for block, status in zip(blocks, expected):
                block = block.replace("127.0.0.1:8081", service.address).replace("127.0.0.1:9000", callee.address)
                self.assertEqual(run(block)[0], status, block)

    def test_callee_of_the_guide_notes_each_key_once(self):
        program = re.search(r"(?s)```python\n(.*?)```", GUIDE)[1].replace("9000", "0").replace(
            ".serve_forever()", "\n").replace("http.server.HTTPServer(", "server = http.server.HTTPServer(")
        program += "print(server.server_port, flush=True)\nserver.serve_forever()\n"
        with tempfile.TemporaryDirectory() as folder:
            callee = subprocess.Popen([sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      text=True)
            with callee:
                url = f"http://127.0.0.1:{callee.stdout.readline().strip()}/unpaid"
                for key in ("a:1", "a:1", "a:2"):
                    self.assertEqual(run(f"curl -H 'Idempotency-Key: {key}' -d text {url}\n")[0], 200)
                callee.kill()
            with sqlite3.connect(f"{folder}/effects.db") as effects:
                self.assertEqual(effects.execute("SELECT * FROM effects ORDER BY key").fetchall(), [("a:1", "text"), ("a:2", "text")])

    def test_token_of_the_guide_opens_the_service(self):
        make, start = blocks_that_begin_with("(umask")[0].strip().split("\n")
        ask = next(block for block in blocks_that_begin_with("curl ") if "$(cat tokens)" in block)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["bash", "-ec", make], cwd=folder, check=True)
            with Service("--tokens", f"{folder}/{start.split()[-1]}") as service:
                ask = ask.replace("127.0.0.1:8081", service.address)
                self.assertEqual(run(ask, folder)[0], 200)
                self.assertEqual(run(ask.replace("tokens", "none"), folder)[0], 401)

    @unittest.skipIf(shutil.which("sqlite3") is None, "sqlite3 is not installed")
    def test_backup_of_the_guide_is_whole_and_private(self):
        with Service() as service:
            document = {"in": "1h", "callback": "http://127.0.0.1:9/"}
            self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 201)
            block = next(block for block in blocks_that_begin_with("(umask") if "backup" in block)
            subprocess.run(["bash", "-ec", "umask 022\n" + block], cwd=service.folder, check=True)
            backup = f"{service.folder}/timers.bak"
            self.assertEqual(os.stat(backup).st_mode & 0o777, 0o600)
            with contextlib.closing(sqlite3.connect(backup)) as saved:
                self.assertEqual(saved.execute("SELECT count(*) FROM tasks").fetchone(), (1,))

    def test_a_timer_is_called_with_its_body_and_headers(self):
        with Callee() as callee, Service() as service:
            status, _ = run(f"""curl -X PUT -H 'Content-Type: application/json' -d '{{"in": "200ms", "body": "order 7",
              "callback": "http://{callee.address}/due"}}' http://{service.address}/v1/timers/order-7""")
            self.assertEqual(status, 201)
            _, headers, body = callee.wait_for("/due")
            self.assertEqual((headers["Timer-Id"], headers["Timer-Attempt"], body), ("order-7", "1", "order 7"))
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    skip_without("curl", "openssl")
    unittest.main(verbosity=2)
