"""Which mutants are tried, and what became of those that were."""
import concurrent.futures
import json
import queue
import random

import limited
from outcome import KILLED, SURVIVED, Outcome


class Record:
    """What became of mutants of the same sources, a line each, as soon as it is known."""

    def __init__(self, path):
        self._path = path
        self._outcomes = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                    self._outcomes[entry["mutant"]] = Outcome(entry["verdict"], entry["by"])
                except (ValueError, KeyError):
                    pass  # the line that was being written when the run ended

    def get(self, mutant):
        return self._outcomes.get(mutant.key)

    def add(self, mutant, outcome):
        self._outcomes[mutant.key] = outcome
        with open(self._path, "a+b") as file:
            file.seek(0, 2)
            if file.tell() and not self._ends_a_line(file):
                file.write(b"\n")
            file.write(json.dumps({"mutant": mutant.key, "verdict": outcome.verdict, "by": outcome.by}).encode() + b"\n")

    @staticmethod
    def _ends_a_line(file):
        file.seek(-1, 2)
        return file.read(1) == b"\n"


class Sample:
    """The first `size` mutants that count, in an order that the seed gives: those that are killed or survive. Whoever asks for
    the next while others are still tried gets one that belongs to the sample whatever becomes of these."""

    def __init__(self, mutants, seed, size):
        self._waiting = sorted(mutants, key=lambda m: m.key)
        random.Random(seed).shuffle(self._waiting)
        self._waiting.reverse()
        self._size = size
        self._counted = 0
        self._tried = 0

    def next(self):
        """A mutant to try; null when none is to be tried now."""
        if self._counted + self._tried >= self._size or not self._waiting:
            return None
        self._tried += 1
        return self._waiting.pop()

    def done(self, outcome):
        self._tried -= 1
        self._counted += outcome.verdict in (KILLED, SURVIVED)


def try_all(sample, record, tally, jobs, make_workers):
    """Tries each mutant of the sample, `jobs` at a time, and tells `record` and `tally`. Workers are made when the first mutant
    is tried of which the record knows nothing."""
    idle = queue.SimpleQueue()
    made = False

    def attempt(mutant):
        worker = idle.get()
        try:
            return worker.try_mutant(mutant)
        finally:
            idle.put(worker)

    def account(mutant, outcome):
        sample.done(outcome)
        tally.add(mutant, outcome)

    running = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                while len(running) < jobs and (mutant := sample.next()):
                    if known := record.get(mutant):
                        account(mutant, known)
                        continue
                    if not made:
                        made = True
                        for worker in make_workers():
                            idle.put(worker)
                    running[pool.submit(attempt, mutant)] = mutant
                if not running:
                    return
                finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in finished:
                    mutant = running.pop(future)
                    outcome = future.result()
                    record.add(mutant, outcome)
                    account(mutant, outcome)
        except BaseException:
            limited.stop()
            raise
