"""curl, as the guide shows it: each block of docs/timer-server.md is run, and its answer is the one that the guide says."""
import os
import re
import subprocess
import unittest

from service import Callee, Service, skip_without


def blocks_of(guide):
    """The indented blocks of a document that begin with curl."""
    with open(guide) as text:
        blocks = re.findall(r"(?m)(?:^    \S.*\n|^      .*\n)+", text.read())
    return [block for block in blocks if block.lstrip().startswith("curl ")]


def run(block):
    """Returns the status of the answer, and its body."""
    done = subprocess.run(["bash", "-ec", "curl() { command curl --silent --show-error --write-out '\\n%{http_code}' \"$@\"; }\n" + block],
                          capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise AssertionError(block + done.stderr)
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


class Curl(unittest.TestCase):
    def test_each_block_of_the_guide_is_answered_as_it_says(self):
        expected = [201, 200, 204, 201, 200, 200, 200]
        blocks = blocks_of(os.environ["GUIDE"])
        self.assertEqual(len(blocks), len(expected), blocks)
        with Callee() as callee, Service() as service:
            for block, status in zip(blocks, expected):
                block = block.replace("127.0.0.1:8081", service.address).replace("127.0.0.1:9000", callee.address)
                self.assertEqual(run(block)[0], status, block)

    def test_a_timer_is_called_with_its_body_and_headers(self):
        with Callee() as callee, Service() as service:
            status, _ = run(f"""curl -X PUT -H 'Content-Type: application/json' -d '{{"in": "200ms", "body": "order 7",
              "callback": "http://{callee.address}/due"}}' http://{service.address}/v1/timers/order-7""")
            self.assertEqual(status, 201)
            _, headers, body = callee.wait_for("/due")
            self.assertEqual((headers["Timer-Id"], headers["Timer-Attempt"], body), ("order-7", "1", "order 7"))
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    skip_without("curl")
    unittest.main(verbosity=2)
