"""Two services share a PostgreSQL server, which is started for the test. One is killed, and the server goes away for a while."""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from service import Callee, Service, wait_for

# Prints "ready" once the server serves. Ends it at the end of the input.
DATABASE = """source "$1"
start_database "$2" || { echo "$database_problem"; exit 1; }
echo "ready $database"
read -r || true
kill -CONT "$database"
stop_database"""


class Database:
    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(["bash", "-c", DATABASE, "bash", os.environ["DATABASE"], self._folder.name],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        answer = self._process.stdout.readline().split()
        if answer[0] != "ready":
            raise RuntimeError("PostgreSQL did not start: " + " ".join(answer))
        self._server = int(answer[1])
        self.url = f"postgresql://demo@/postgres?host={self._folder.name}"
        return self

    def backends(self):
        with open(f"/proc/{self._server}/task/{self._server}/children") as children:
            return [int(child) for child in children.read().split()]

    def signal(self, number):
        """To the server and to all of its processes."""
        for process in [self._server, *self.backends()]:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def __exit__(self, *_):
        self.signal(signal.SIGCONT)
        self._process.communicate()
        self._folder.cleanup()


class Postgres(unittest.TestCase):
    def test_services_share_timers_and_one_takes_over_from_another(self):
        with Callee() as callee, Database() as database:
            options = ["--store", database.url, "--lease", "1s"]
            with Service(*options) as first, Service(*options) as second:
                later = {"in": "1h", "callback": "http://127.0.0.1:9/first"}
                self.assertEqual(first.ask("PUT", "/v1/timers/later", later)[0], 201)
                self.assertEqual(second.ask("PUT", "/v1/timers/later", {**later, "in": "2h"})[0], 200)
                self.assertEqual(json.loads(second.ask("GET", "/v1/timers/later")[1])["callback"], later["callback"])
                for i in range(100):
                    document = {"in": "2s", "callback": f"http://{callee.address}/{i}"}
                    self.assertEqual((first, second)[i % 2].ask("PUT", f"/v1/timers/{i}", document)[0], 201)
                first.signal(signal.SIGKILL)
                first.wait()
                wait_for(lambda: len({path for path, _, _ in list(callee.calls)}) == 100, "a timer was not called")
                self.assertEqual(second.stop(), 0)

    def test_lost_connection_has_a_line_and_each_line_is_json(self):
        with Database() as database, Service("--store", database.url, "--log", "json") as service:
            end_others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            subprocess.run(["psql", "-q", "-d", database.url, "-c", end_others], check=True, stdout=subprocess.DEVNULL)
            wait_for(lambda: '"postgres_store: connected"' in service.lines(), "it is not connected again")
            lines = [json.loads(line) for line in service.lines().splitlines()]
            self.assertEqual([line["event"] for line in lines[:2]], ["listening", "ready"])
            self.assertEqual({line["event"] for line in lines[2:]}, {"store"})
            self.assertIn("the connection is lost", lines[2]["message"])

    def test_requests_are_unavailable_while_the_server_is_stopped(self):
        document = {"in": "1h", "callback": "http://127.0.0.1:9/"}
        with Callee() as callee, Database() as database, Service("--store", database.url, "--lease", "2s") as service:
            self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 201)
            soon = {"in": "1s", "callback": f"http://{callee.address}/soon"}
            self.assertEqual(service.ask("PUT", "/v1/timers/soon", soon)[0], 201)
            database.signal(signal.SIGSTOP)
            statuses = set()
            wait_for(lambda: statuses.add(service.ask("PUT", "/v1/timers/b", document)[0]) or 503 in statuses, statuses)
            self.assertLessEqual(statuses, {503, 504})
            self.assertEqual(service.ask("GET", "/readyz")[0], 503)
            database.signal(signal.SIGCONT)
            wait_for(lambda: service.ask("PUT", "/v1/timers/b", document)[0] in (200, 201), "it stays unavailable")
            self.assertEqual(service.ask("GET", "/v1/timers/a")[0], 200)
            wait_for(lambda: callee.calls, "what became due meanwhile was not called")
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
