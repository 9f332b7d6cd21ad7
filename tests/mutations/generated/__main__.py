"""Makes mutants of a part of the library, runs their tests on a sample, and lists those that survive.

./dev mutate --sample N [--part core|durable] [--seed N] [--jobs N] [--only TEXT]
"""
import argparse
import fcntl
import pathlib
import random
import signal
import sys

sys.dont_write_bytecode = True

import limited  # noqa: E402
from build import Base, Worker  # noqa: E402
from errors import MutationError  # noqa: E402
from judgements import Judgements  # noqa: E402
from layers import CORE, PARTS  # noqa: E402
from mutants import mutants_of  # noqa: E402
from sample import Record, Sample, try_all  # noqa: E402
from tally import Tally, indented  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
SURVIVORS = pathlib.Path(__file__).resolve().parents[1] / "survivors"  # a file for each part


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def main(arguments):
    options = argparse.ArgumentParser(prog="./dev mutate", description="tries mutants of the library")
    options.add_argument("--sample", type=positive, required=True, metavar="N", help="how many mutants")
    options.add_argument("--part", choices=PARTS, default=CORE.name, help="core, which has the inbox also, or the engine of durable timers")
    options.add_argument("--seed", type=int, metavar="N", help="which ones; one of chance by default, and printed")
    options.add_argument("--jobs", type=positive, default=2, metavar="N", help="how many at a time, 2 by default")
    options.add_argument("--only", default="", metavar="TEXT", help="of the mutants whose file, operator or line has TEXT in it")
    options = options.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10000)

    part = PARTS[options.part]
    judgements = Judgements((SURVIVORS / part.name).read_text(), f"survivors/{part.name}")
    work = ROOT / "build/mutants" / part.name
    work.mkdir(parents=True, exist_ok=True)
    lock = open(work / "lock", "w")  # until the end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MutationError(f"another run has {work.relative_to(ROOT)}; wait for its end") from None
    base = Base(part, ROOT, work, options.jobs)
    every = [m for file in base.layer_of for m in mutants_of(file, (base.tree / file).read_text())]
    mutants = [m for m in every if options.only in m.key]
    print(f"seed {seed}: {options.sample} of {len(mutants)} mutants; sources {base.digest}", flush=True)

    record = Record(work / f"outcomes-{base.digest}.jsonl")
    tally = Tally(judgements)

    def make_workers():
        for programs in base.programs.values():
            for program in programs:
                program.measure()
        return [Worker(base, number) for number in range(options.jobs)]

    try:
        try_all(Sample(mutants, seed, options.sample), record, tally, options.jobs, make_workers)
    except (limited.Stopped, KeyboardInterrupt):
        print("stopped; the same command goes on from here")
        return 130
    for key in judgements.unknown({m.key for m in every}):
        print(f"judged, but no mutant any more:\n{indented(key)}")
    print(tally)
    return 0 if tally.is_good() else 1


def interrupt(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except MutationError as e:
        print(f"mutate: {e}", file=sys.stderr)
        sys.exit(2)
