"""Programs that may do anything: run with limits on their time, their memory and what they write."""
import os
import resource
import signal
import subprocess
import threading

PROCESSOR_SECONDS = 60
ASLEEP_SECONDS = 30  # who takes no processor time for so long waits for what never comes
MEMORY = 8 << 30
OUTPUT = 64 << 20
ENVIRONMENT = {
    **os.environ,
    # what was freed is overwritten at once, so that who reads it still is likely to crash
    "MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    "CCACHE_DISABLE": "1",  # nobody compiles a mutant twice
}

ENDED, HUNG = "ended", "hung"


class Stopped(Exception):
    """`stop` was called: what came of a program means nothing."""


_running = set()
_lock = threading.Lock()
_stopped = False


def stop():
    """Kills all that runs, for good."""
    global _stopped
    with _lock:
        _stopped = True
        for process in _running:
            kill(process)


def run(command, directory, output, seconds=PROCESSOR_SECONDS):
    """Runs the command and answers (ENDED, its exit code), or (HUNG, None). What it says is in the file `output`."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with open(output, "wb") as said, _lock:
        if _stopped:
            raise Stopped
        # in a group of its own, so that an interrupt of ours does not look like a crash of the program
        process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                   env=ENVIRONMENT, preexec_fn=limit, start_new_session=True)
        _running.add(process)
    hung = False
    try:
        used = -1.0
        while True:
            try:
                process.wait(timeout=ASLEEP_SECONDS)
                break
            except subprocess.TimeoutExpired:
                before, used = used, processor_time(process.pid)
                if used <= before:
                    hung = True
                    kill(process)
    finally:
        kill(process)  # what it started
        process.wait()
        with _lock:
            _running.discard(process)
    if _stopped:
        raise Stopped
    if hung or -process.returncode == signal.SIGXCPU:
        return HUNG, None
    return ENDED, process.returncode


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def processor_time(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rsplit(b")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
