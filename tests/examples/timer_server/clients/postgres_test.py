"""Two services share a PostgreSQL server, which is started for the test. One is killed, and the server goes away for a while."""
import concurrent.futures
import http.client
import json
import os
import signal
import subprocess
import tempfile
import threading
import unittest

from service import Callee, Service, wait_for

# Prints "ready" once the server serves. Kills it, and runs it again, as the lines of the input say. Ends it at the end of the input.
DATABASE = """source "$1"
report() { [[ $1 == 0 ]] && echo "ready $database" || { echo "$database_problem"; exit 1; }; }
start_database "$2"; report $?
while read -r command; do
  if [[ $command == run ]]; then run_database "$2"; report $?; continue; fi
  kill -QUIT "$database"  # the immediate stop: nothing is written, and no client is told
  wait "$database"
  database=''
  echo killed
done
[[ -z $database ]] || { kill -CONT "$database"; stop_database; }"""


class Database:
    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(["bash", "-c", DATABASE, "bash", os.environ["DATABASE"], self._folder.name],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._take_server()
        self.url = f"postgresql://demo@/postgres?host={self._folder.name}"
        return self

    def _take_server(self):
        answer = self._process.stdout.readline().split()
        if not answer or answer[0] != "ready":
            raise RuntimeError("PostgreSQL did not start: " + " ".join(answer))
        self._server = int(answer[1])

    def _tell(self, command):
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def kill(self):
        """Stops it at once, as a crash does."""
        self._server = None
        self._tell("kill")
        self._process.stdout.readline()

    def run(self):
        """Starts it again."""
        self._tell("run")
        self._take_server()

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
        if self._server is not None:
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

    def test_services_of_two_schemas_do_not_see_each_other(self):
        with Callee() as callee, Database() as database:
            with Service("--store", database.url, "--schema", "shop") as shop, Service("--store", database.url, "--schema", "bank") as bank:
                for service, name in ((shop, "shop"), (bank, "bank")):
                    document = {"in": "500ms", "callback": f"http://{callee.address}/{name}"}
                    self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 201)
                    self.assertEqual(service.ask("PUT", f"/v1/timers/only-{name}", {**document, "in": "1h"})[0], 201)
                self.assertEqual(bank.ask("GET", "/v1/timers/only-shop")[0], 404)
                self.assertEqual(bank.ask("DELETE", "/v1/timers/only-shop")[0], 404)
                for name in ("shop", "bank"):
                    callee.wait_for(f"/{name}")
                for service in (shop, bank):
                    self.assertEqual(service.stop(), 0)
                self.assertEqual(sorted(path for path, _, _ in callee.calls), ["/bank", "/shop"])
                self.assertIn(" started=1 ", shop.lines())
                self.assertIn(" started=1 ", bank.lines())

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



IN_AN_HOUR = {"in": "1h", "callback": "http://127.0.0.1:9/"}
LATE = {"due": "2100-01-01T00:00:00Z", "callback": "http://127.0.0.1:9/"}


class Outage(unittest.TestCase):
    """503 says that nothing was changed, and after which time to ask again. The process lives, and recovers by itself."""

    def assert_unavailable(self, answer):
        status, header, text = answer
        self.assertEqual(status, 503, text)
        self.assertGreaterEqual(int(header.get("Retry-After", 0)), 1)
        self.assertEqual(json.loads(text)["status"], 503)

    def assert_alive_and_not_ready(self, service):
        self.assertEqual(service.ask("GET", "/healthz")[0], 200)
        self.assert_unavailable(service.ask_whole("GET", "/readyz"))
        self.assertEqual(service.ask("GET", "/metrics")[0], 200)

    def test_service_that_was_started_without_its_server_waits_for_it(self):
        with Callee() as callee, Database() as database:
            database.kill()
            with Service("--store", database.url, "--lease", "2s", is_ready=False) as service:
                self.assert_alive_and_not_ready(service)
                requests = [("PUT", "/v1/timers/in", IN_AN_HOUR), ("PUT", "/v1/timers/due", LATE), ("GET", "/v1/timers/due", None),
                            ("DELETE", "/v1/timers/due", None), ("POST", "/v1/timers/due/revive", None),
                            ("GET", "/v1/timers?state=pending", None)]
                with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
                    answers = [threads.submit(service.ask_whole, *request) for request in requests]
                    self.assert_alive_and_not_ready(service)  # while they wait
                    for answer in answers:
                        self.assert_unavailable(answer.result())
                self.assert_alive_and_not_ready(service)
                database.run()
                service.wait_until_ready()
                for name in ("in", "due"):
                    self.assertEqual(service.ask("GET", f"/v1/timers/{name}")[0], 404, "503 says that nothing was changed")
                soon = {"in": "0s", "callback": f"http://{callee.address}/soon"}
                self.assertEqual(service.ask("PUT", "/v1/timers/soon", soon)[0], 201)
                callee.wait_for("/soon")
                self.assertEqual(service.stop(), 0)

    def test_service_that_waits_for_its_server_stops_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            store = f"postgresql://demo@/postgres?host={folder}"
            with Service("--store", store, "--drain", "1h", is_ready=False) as service:
                self.assert_alive_and_not_ready(service)
                self.assertEqual(service.stop(), 0)
                self.assertIn(" left_running=0\n", service.lines())

    def test_server_is_killed_while_clients_schedule_and_timers_are_due(self):
        with Callee() as callee, Database() as database, Service("--store", database.url, "--lease", "2s") as service:
            due_meanwhile = [f"meanwhile-{i}" for i in range(20)]
            for name in due_meanwhile:
                document = {"in": "1s", "callback": f"http://{callee.address}/{name}"}
                self.assertEqual(service.ask("PUT", f"/v1/timers/{name}", document)[0], 201)
            answers, ended = {}, threading.Event()

            def schedule(client):
                for i in range(1000000):
                    if ended.wait(0.05):
                        return
                    name = f"client-{client}-{i}"
                    try:
                        answers[name] = service.ask_whole("PUT", f"/v1/timers/{name}", LATE)
                    except (OSError, http.client.HTTPException) as error:  # an exception of a thread fails no test
                        answers[name] = (repr(error), {}, "")

            clients = [threading.Thread(target=schedule, args=(i,), daemon=True) for i in range(4)]
            for client in clients:
                client.start()
            wait_for(lambda: len(answers) > 20, "no client is answered")
            database.kill()
            wait_for(lambda: service.ask("GET", "/readyz")[0] == 503, "it stays ready")
            self.assert_alive_and_not_ready(service)
            wait_for(lambda: 503 in {status for status, _, _ in list(answers.values())}, "no client is told")
            for request in (("GET", "/v1/timers/client-0-0"), ("DELETE", "/v1/timers/client-0-0"), ("GET", "/v1/timers?state=dead")):
                self.assert_unavailable(service.ask_whole(*request))
            database.run()
            service.wait_until_ready()
            ended.set()
            for client in clients:
                client.join()

            statuses = {status for status, _, _ in answers.values()}
            self.assertLessEqual(statuses, {201, 503, 504})
            self.assertLessEqual({201, 503}, statuses)
            for name, answer in answers.items():
                if answer[0] == 503:
                    self.assert_unavailable(answer)
                expected = {201: (200,), 503: (404,), 504: (200, 404)}[answer[0]]
                self.assertIn(service.ask("GET", f"/v1/timers/{name}")[0], expected, f"{name} was answered {answer[0]}")
                again = {201: (200,), 503: (201,), 504: (200, 201)}[answer[0]]
                self.assertIn(service.ask("PUT", f"/v1/timers/{name}", LATE)[0], again, f"{name} was answered {answer[0]}")
            wait_for(lambda: {path for path, _, _ in list(callee.calls)} == {"/" + name for name in due_meanwhile},
                     "what became due meanwhile was not called")
            keys = {(path, headers["Idempotency-Key"]) for path, headers, _ in list(callee.calls)}
            self.assertEqual(len(keys), len(due_meanwhile), "a repeated call has another key")
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
