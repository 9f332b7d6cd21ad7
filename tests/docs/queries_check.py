#!/usr/bin/env python3
"""Runs each query of the dashboard and of the alert rules against a Prometheus that scrapes a loop.

  queries_check.py ROOT PROGRAM    PROGRAM writes the metrics: metrics.cpp

A query of the dashboard must have a result. A rule is asked for what it compares, because no alert should be firing.
"""
import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from metrics_test import expressions


class Exporter(http.server.BaseHTTPRequestHandler):
    program = None

    def do_GET(self):
        self.program.stdin.write("now\n")
        self.program.stdin.flush()
        body = "".join(iter(self.program.stdout.readline, "# EOF\n")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(port, query):
    """The number of series in the answer of Prometheus."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query}),
                                timeout=10) as answer:
        return len(json.load(answer)["data"]["result"])


def free_port():
    with http.server.HTTPServer(("127.0.0.1", 0), Exporter) as probe:
        return probe.server_port


def wait_for(port, query, seconds):
    """Waits until the query has a result."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ask(port, query):
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"queries_check: no result of {query} within {seconds} s")


def queries_of(root):
    """All queries: those of the dashboard with its variables filled in, and the left sides of the rules."""
    dashboard = json.loads((root / "docs/monitoring/dashboard.json").read_text())
    for title, query in expressions(dashboard):
        yield title, query.replace("$__rate_interval", "5s").replace("$job", ".*")
    for rule in re.findall(r"expr: >?\s*(.+?)\n +for:", (root / "docs/monitoring/alerts.yml").read_text(), re.DOTALL):
        yield "a rule", re.sub(r"\s+", " ", rule).rsplit(" > ", 1)[0].replace("[5m]", "[5s]")


def main():
    root, port = pathlib.Path(sys.argv[1]), free_port()
    queries = list(queries_of(root))
    with subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program, \
            tempfile.TemporaryDirectory() as directory:
        Exporter.program = program
        exporter = http.server.HTTPServer(("127.0.0.1", 0), Exporter)
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        config = pathlib.Path(directory, "prometheus.yml")
        config.write_text("scrape_configs:\n- job_name: loop\n  scrape_interval: 1s\n  static_configs:\n"
                          f"  - targets: ['127.0.0.1:{exporter.server_port}']\n")
        with open(pathlib.Path(directory, "log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                                       f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            try:
                wait_for(port, "rate(tickwheel_loop_busy_seconds_total[5s])", 60)
                empty = [f"{title}: no result: {query}" for title, query in queries if not ask(port, query)]
            finally:
                server.terminate()
                server.wait()
                program.stdin.close()
                exporter.shutdown()
    print("\n".join(empty) if empty else f"{len(queries)} queries have results")
    return bool(empty)


if __name__ == "__main__":
    sys.exit(main())
