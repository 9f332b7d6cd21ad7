"""Runs the benchmark programs one after the other, and keeps their output."""
import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from errors import ReportError


class Programs:
    def __init__(self, folder, core):
        self.folder = pathlib.Path(folder)
        self.core = core
        self.peers = self.folder.parents[1] / "peers"  # tools/bench installs them
        self.worker_of_netty = pathlib.Path(__file__).parents[1] / "worker/netty"
        self.begin = time.monotonic()

    def build(self, directory, *targets):
        if subprocess.run(["ninja", "--quiet", "-C", str(directory), *targets]).returncode != 0:
            raise ReportError(f"the build in {directory} failed")
        self.begin = time.monotonic()  # the build does not count

    def seconds(self):
        return round(time.monotonic() - self.begin)

    @contextlib.contextmanager
    def disk(self):
        """An empty folder in the build, and the name of its file system. The folder is removed at the end."""
        with tempfile.TemporaryDirectory(prefix="disk-", dir=self.folder.parent) as folder:
            os.chmod(folder, 0o755)  # PostgreSQL's user passes through
            found = subprocess.run(["findmnt", "--noheadings", "--output", "FSTYPE", "--target", folder],
                                   stdout=subprocess.PIPE, text=True)
            filesystem = found.stdout.strip() or "unknown"
            if filesystem in ("tmpfs", "ramfs"):
                raise ReportError(f"{self.folder.parent} is on {filesystem}; durable_bench needs a file system on a disk")
            yield folder, filesystem

    def run(self, program, *options, out, pinned=True, folder=None, environment=None, **labels):
        """One run. `out`: the option by which the program is told to write its JSON to a file. `folder`: where the program runs; by
        default here. `environment`: further variables. The labels are kept with the output."""
        if not (self.folder / program).exists():
            raise ReportError(f"{self.folder / program} was not built")
        return self._run(program, [self.folder / program], options, out=out, pinned=pinned, folder=folder, environment=environment,
                         **labels)

    def netty(self, *options, **labels):
        """One run of WorkerBench.java."""
        return self._run("netty", [self.worker_of_netty, self.peers / "netty"], options, out=["--json", "{}"], pinned=False, **labels)

    def missing_for_netty(self):
        """What Netty's benchmark needs and this machine does not have; None: nothing."""
        checked = subprocess.run([self.worker_of_netty, self.peers / "netty", "--available"], stdout=subprocess.PIPE, text=True)
        return None if checked.returncode == 0 else checked.stdout.strip()

    def _run(self, program, at, options, *, out, pinned, folder=None, environment=None, **labels):
        environment = environment or {}
        variables = [f"{name}={value}" for name, value in environment.items()]
        command = [*variables, program, *options]
        print(f"{self.seconds():5d} s  {shlex.join(command)}", flush=True)
        pin = ["taskset", "-c", str(self.core)] if pinned else []
        begin = time.monotonic()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            where = [o.format(file.name) for o in out]
            done = subprocess.run([*pin, *map(str, at), *options, *where], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", cwd=folder, env={**os.environ, **environment})
            text = pathlib.Path(file.name).read_text()
        if done.returncode != 0:
            # the lines that say what is wrong; of Google Benchmark's others there are many
            wrong = [line for line in done.stdout.splitlines() if "ERROR" in line or line.startswith(program)]
            raise ReportError(f"{shlex.join(command)} failed: " + "; ".join(wrong or done.stdout.splitlines()[-1:] or ["silently"]))
        try:
            output = json.loads(text)
        except ValueError:
            raise ReportError(f"{shlex.join(command)}: wrote no JSON") from None
        return {"program": program, "command": shlex.join([*pin, *command]), "seconds": round(time.monotonic() - begin, 1),
                **labels, "output": output}

    def google(self, program, pattern, *options, **labels):
        """Benchmarks of a program that is Google Benchmark's, once each, in the order in which it knows them."""
        return self.run(program, f"--benchmark_filter={pattern}", *options,
                        out=["--benchmark_out={}", "--benchmark_out_format=json"], **labels)

    def benchmarks(self, program):
        """The names of all it has."""
        done = subprocess.run([str(self.folder / program), "--benchmark_list_tests"], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise ReportError(f"{program} --benchmark_list_tests failed")
        return done.stdout.split()
