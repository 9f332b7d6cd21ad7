"""A client of timer_load keeps one socket, which it closes and opens again. A retry may be due in the iteration in which the server hangs
up."""
import os
import socket
import subprocess
import time
import unittest

LOAD = os.environ['TIMER_LOAD']
CONNECTIONS = 200
ROUNDS = 10
RETRY = 0.05  # after a 503 a client asks again


class Load(unittest.TestCase):
    def test_retries_are_due_as_the_server_hangs_up(self):
        with socket.create_server(('127.0.0.1', 0), backlog=CONNECTIONS) as listener:
            listener.settimeout(5)
            load = subprocess.Popen([LOAD, '--port', str(listener.getsockname()[1]), '--timers', str(CONNECTIONS), '--connections',
                                     str(CONNECTIONS)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                for _ in range(ROUNDS):
                    connections = [listener.accept()[0] for _ in range(CONNECTIONS)]
                    for connection in connections:
                        connection.recv(65536)
                    for connection in connections:
                        connection.sendall(b'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n')
                    # some close before their clients' retries are due, and some after
                    time.sleep(RETRY * 0.9)
                    for connection in connections:
                        connection.close()
                        time.sleep(RETRY * 0.2 / CONNECTIONS)
                self.assertIsNone(load.poll(), 'timer_load ended')
            finally:
                load.kill()
                said = load.communicate()[1]
                self.assertEqual(said, '')


if __name__ == '__main__':
    unittest.main()
