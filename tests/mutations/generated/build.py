"""The sources built once, and workers that build a mutant from what it changes."""
import fnmatch
import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import limited
from errors import MutationError
from outcome import KILLED, NO_CODE, NO_END, SAME_CODE, SURVIVED, Outcome

SLOW = 0.1  # a test that takes longer waits until the quick ones have passed, in seconds


# --- the sources, built once ------------------------------------------------------------------------------------------

class Base:
    """A copy of the sources in work/tree and its build in work/build, as tests/mutations/check has them.

    The copy stays as it is while mutants are tried, whatever happens to the sources.
    """

    def __init__(self, part, root, work, jobs):
        self.part = part
        self.work = work
        self.tree = work / "tree"
        self.build = work / "build"
        self.log = work / "log"
        self._copy(root)
        if not (self.build / "build.ninja").exists():
            self._run("meson", "setup", self.build, self.tree, *part.meson_options)
        # also when meson has to be asked anew
        self._run("ninja", "-C", self.build, "build.ninja")
        programs = self._list_programs()
        self._run("ninja", "-C", self.build, f"-j{jobs}", *(p for listed in programs.values() for p in listed))
        self._read_commands()
        self._read_users()
        self.programs = {layer: [Program(self, p) for p in listed] for layer, listed in programs.items()}
        self.layer_of = {}  # of a file that is mutated
        for layer in part.layers:
            for pattern in layer.sources:
                for file in sorted(self.tree.glob(pattern)):
                    self.layer_of[str(file.relative_to(self.tree))] = layer
        self.digest = self._digest()

    def _copy(self, root):
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.split("\0")
        wanted = {f for f in listed if f and (root / f).is_file()}
        for file in wanted:
            copy_if_different(root / file, self.tree / file)
        for file in self.tree.rglob("*"):
            if file.is_file() and str(file.relative_to(self.tree)) not in wanted:
                file.unlink()

    def _run(self, *command):
        with open(self.log, "wb") as log:
            if subprocess.run(command, stdout=log, stderr=log, check=False).returncode == 0:
                return
        raise MutationError(f"{command[0]} failed:\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-20:]))

    def ask(self, *command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _list_programs(self):
        """Returns the programs of each layer's tests."""
        targets = json.loads(self.ask("meson", "introspect", "--targets", self.build))
        made = [str(pathlib.Path(f).relative_to(self.build)) for t in targets if t["type"] == "executable" for f in t["filename"]]
        return {layer: [f for pattern in layer.programs for f in made if fnmatch.fnmatch(f, pattern)] for layer in self.part.layers}

    def _read_commands(self):
        self.commands = {}   # of an object: how it is compiled
        self.source_of = {}  # of an object: the name of its source
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            command = shlex.split(entry["command"])
            if command[0].endswith("ccache"):
                command = command[1:]
            self.commands[entry["output"]] = [*command, "-w"]
            self.source_of[entry["output"]] = pathlib.PurePath(entry["file"]).name

    def _read_users(self):
        self.users = {}  # of a file: the objects that are made of it
        made = None
        for line in self.ask("ninja", "-C", self.build, "-t", "deps").splitlines():
            if line and not line[0].isspace():
                made = line.split(":")[0]
            elif line.strip() and made in self.commands:
                file = (self.build / line.strip()).resolve()
                if file.is_relative_to(self.tree):
                    self.users.setdefault(str(file.relative_to(self.tree)), set()).add(made)

    def _digest(self):
        """Of all that decides what becomes of a mutant."""
        digest = hashlib.sha256()
        here = pathlib.Path(__file__).parent
        files = [self.tree / f for f in sorted(self.users)] + sorted((self.tree / "tests/core/corpus").iterdir())
        for file in [*files, here / "source.py", here / "mutants.py", here / "build.py", here / "limited.py"]:
            digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
        digest.update(json.dumps(self.commands, sort_keys=True).replace(str(self.work), "").encode())
        digest.update(self.ask("c++", "--version").encode())
        return digest.hexdigest()[:12]


def copy_if_different(source, target):
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


class Program:
    """A program of tests: what it is linked from, and, once they were run, which of its tests take long."""

    def __init__(self, base, name):
        self.name = name
        own = []
        library = []
        for needed in base.ask("ninja", "-C", base.build, "-t", "inputs", name).splitlines():
            if needed.strip() in base.commands:
                (own if needed.startswith(f"{name}.p/") else library).append(needed.strip())
        # a program may have files of the library compiled in its own way
        sources = {base.source_of[o] for o in own}
        self.objects = own + [o for o in library if base.source_of[o] not in sources]
        self._base = base
        self._by_count = None

    def measure(self):
        """Runs the tests as they are without a mutant."""
        if self._by_count is not None:
            return
        report = self._base.work / "tests.json"
        came = limited.run([self._base.build / self.name, f"--gtest_output=json:{report}", "--gtest_brief=1"], self._base.build,
                           self._base.log, 3600)
        if came != (limited.ENDED, 0):
            raise MutationError(f"{self.name} fails without a mutation:\n{self._base.log.read_text(errors='replace')[-2000:]}")
        self.seconds = 0.0
        self.slow = []
        count = {}
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                seconds = float(test["time"].rstrip("s"))
                self.seconds += seconds
                if seconds >= SLOW:
                    self.slow.append(f"{suite['name']}.{test['name']}")
                source = pathlib.PurePath(test["file"]).name
                count[source] = count.get(source, 0) + 1
        self._by_count = sorted(count, key=lambda source: -count[source])

    def groups(self, changed):
        """Where tests are to be compiled anew, those of the files that have most are tried before the rest is compiled.

        A group has whatever else they need.
        """
        first, rest = set(self._by_count[:3]), set(self._by_count[3:])
        if not rest or not any(self._base.source_of[o] in first | rest for o in changed):
            return [self.objects]
        return [[o for o in self.objects if self._base.source_of[o] not in others] for others in (rest, first)]


# --- a mutant ---------------------------------------------------------------------------------------------------------

class Worker:
    """A directory with a copy of the sources, of which one is changed at a time. Commands of the base name files relative to
    the build, so they do the same here."""

    def __init__(self, base, number):
        self._base = base
        self._home = base.work / f"worker-{number}"
        self._tree = self._home / "tree"
        self._build = self._home / "build"
        for directory in ("include", "src", *base.part.tests):
            for file in (base.tree / directory).rglob("*"):
                if file.is_file():
                    copy_if_different(file, self._tree / file.relative_to(base.tree))
        for made in base.commands:
            (self._build / made).parent.mkdir(parents=True, exist_ok=True)

    def try_mutant(self, mutant):
        original = (self._base.tree / mutant.file).read_text()
        changed = self._tree / mutant.file
        changed.write_text(mutant.apply(original))
        try:
            built = {}  # the objects that the mutant changes: whether they differ
            for program in self._base.programs[self._base.layer_of[mutant.file]]:
                outcome = self._try(program, self._base.users.get(mutant.file, set()), built)
                if outcome:
                    return outcome
            return Outcome(SURVIVED if any(built.values()) else SAME_CODE)
        finally:
            changed.write_text(original)

    def _try(self, program, users, built):
        """Returns None if all tests of the program pass."""
        changed = users.intersection(program.objects)
        for group in program.groups(changed):
            for made in sorted(changed.intersection(group) - built.keys()):
                if not self._compile(made):
                    return Outcome(NO_CODE)
                built[made] = (self._build / made).read_bytes() != (self._base.build / made).read_bytes()
            outcome = self._run(program, group, built, "-" + ":".join(program.slow))
            if outcome:
                return outcome
        return self._run(program, program.objects, built, ":".join(program.slow)) if program.slow else None

    def _compile(self, made):
        return limited.run(self._base.commands[made], self._build, self._home / "log") == (limited.ENDED, 0)

    def _run(self, program, objects, built, tests):
        """Returns None if the tests pass, or if the objects are those without a mutant."""
        if not any(built.get(o) for o in objects):
            return None
        tested = self._home / "tests"
        linked = [(self._build if built.get(o) else self._base.build) / o for o in objects]
        if limited.run(["c++", "-o", tested, *linked, *self._base.part.libraries], self._build, self._home / "log") != (limited.ENDED, 0):
            return Outcome(NO_CODE)
        said = self._home / "said"
        kind, code = limited.run([tested, "--gtest_fail_fast", "--gtest_color=no", f"--gtest_filter={tests}"], self._build, said,
                                 limited.PROCESSOR_SECONDS + int(program.seconds))
        if (kind, code) == (limited.ENDED, 0):
            return None
        return Outcome(KILLED, what_failed(said.read_text(errors="replace"), kind == limited.HUNG, code))


def what_failed(said, hung, code):
    running = re.findall(r"^\[ RUN      \] (\S+)", said, re.MULTILINE)
    last = running[-1] if running else "the program"
    if hung:
        return f"{last}{NO_END}"
    failed = re.search(r"^\[  FAILED  \] (\S+?),? ", said, re.MULTILINE)
    if failed and code == 1:
        return failed[1]
    return f"{last}, which crashes"
