"""What the page says besides figures. The facts are those of bench/wheel and tests/support/simulated_clock."""

SUBJECTS = {
    "wheel": "tickwheel's bare wheel, which is told the time: what the library is built on, and what an own loop would use",
    "wheel_hashed": "the same with one level of 4096 slots",
    "timer_at": "tickwheel's `timer` on a libuv loop, armed by `arm_at(service.now() + delay)`: the clock is read once an iteration",
    "timer": "the same, armed by `arm(delay)`: the clock is read for each",
    "timer_slack": "the same, armed by `arm(delay, slack)`, which lets a timer be a tenth of its delay later to share a wakeup",
    "libuv": "`uv_timer_t`: a binary heap, by the loop's time",
    "libevent": "`event_add` of a timeout: a binary heap, and a read of the kernel's coarse clock for each",
    "libevent_common": "the same with `event_base_init_common_timeout`, for timeouts of one length",
    "libev": "`ev_timer`, moved by `ev_timer_again`: a four-ary heap, by the loop's time",
    "asio": "Boost.Asio's `steady_timer`, `expires_after` and `async_wait`: a binary heap, and a clock read for each",
    "multimap": "`std::multimap` by deadline, told the time as the wheel is: a balanced tree",
    "priority_queue": "`std::priority_queue` with lazy deletion, told the time as the wheel is",
}

FLOORS = {
    "store": "stores to a line of an object drawn at random, as touch draws them",
    "store_each": "stores to a line of each object once, in random order, as arm takes them",
    "update": "loads, changes and stores, at random",
    "array": "the same, each once, in the order they were allocated, prefetched",
    "chase": "each once, in random order, the address of the next being in the line: no two misses overlap",
    "store_fenced": "*store*, each by itself, between fences",
}

WORKLOADS = {
    "rearm": "Cancel the timer of a random connection and arm it anew, 1 to 60 s from now, a microsecond after the one before.",
    "arm_cancel": "Arm one timer for 5 s and cancel it, while all others are armed. Time stands still.",
    "touch": "The idle timer of a random connection is moved to 60 s from now, a microsecond after the one before.",
    "arm": "All connections are armed, 1 to 60 s from now. None was armed before, and time stands still.",
    "fire": "All connections, armed 1 to 60 s from now, run out. A bare wheel, a multimap and a priority_queue are told each of "
            "465,393 ticks; a loop waits for as long as it asks for, and pays for a poll each time. So at a thousand timers a loop "
            "has a thousand polls, and at a million some 60,000.",
    "lifecycle": "The timer of a random connection is destroyed, armed or not, constructed anew, armed, and half of the time cancelled.",
    "pause": "All connections, armed 60 to 119 s from now, run out, tick by tick: nanoseconds a timer, and how long the longest tick takes.",
    "wait": "All connections are armed, 1 to 60 s from now, and run out on a loop that has nothing else to do and sleeps in between.",
    "sparse": "One timer is armed for ten hours, which are crossed at once; nothing else is armed.",
}

LIMITS = """\
- **The machine.** {machine} Others' work on it is noise that pinning and interleaving make equal for all, and do not
  take away: compare ratios, and look at the spread. Maxima, of `pause` and of the lateness, are the machine's as much as the subject's.
- **The clock is simulated** in wheel_bench, so that a minute of timers takes no minute. `wheel`, `wheel_hashed`, `multimap` and
  `priority_queue` are told the time: they read no clock, and there is no loop and no system call in their figures. The others are whole
  libraries on a real epoll: `clock_gettime` is replaced in the process, and reads the true clock before it answers, so that a read
  costs what it costs. `timer` and `asio` pay one for each timer they arm, `libevent` one of the coarse clock; `timer_at`, `libuv` and
  `libev` one an iteration.
- **Waits are simulated**, too: where a loop would wait, epoll is asked without a timeout, one system call, and the clock is moved.
  That nothing sleeps hides what it costs to be woken: the switch, and caches that went cold.
- **Asio finds no timerfd**, which it would use: its waits are bounded by epoll's timeout. So the system call with which it sets
  one whenever its earliest timer changes is missing from its figures.
- **A loop turns once in a simulated millisecond**, as in a busy server: a poll is shared by 1000 operations of rearm, touch and
  lifecycle. Servers that turn for each operation pay more for the poll than for any timer.
- **Resolution differs.** A tick is {tick}, libuv knows milliseconds, libevent microseconds, libev seconds in a double, Asio
  nanoseconds. All must come to the same outcome, within 3 ms: the checksum of each run is compared with what the script says.
- **Options.** libevent has no locks (`EVENT_BASE_FLAG_NOLOCK`), Asio neither (`BOOST_ASIO_CONCURRENCY_HINT_UNSAFE`). tickwheel's service runs without the bounds
  on a pass that keep I/O alive, and without looking for stalls, as time that jumps would be one after the other.
- **Objects.** A timer lies at the front of an object of {connection}, aligned to a cache line, each allocated by itself and visited in
  random order; nothing touches the rest. In a server the I/O handler has touched the line before, and timers cost less than here;
  of objects that are larger, or packed, the figures may differ.
- **Tight loops overlap misses.** The processor begins the next operation while the line of this one is under way, for all subjects
  alike. An operation by itself takes a whole miss: the fenced figures of the cost model say what is left of the differences then.
- **Lifecycle favours libuv**: a `uv_timer_t` cannot be made anew in its place, so its handles come from a free list and are warm.
  multimap and priority_queue take no part.
- **Builds.** libuv, libevent and libev are Debian's shared libraries, with Debian's flags; tickwheel is a shared library, too, built with the flags
  above, as is what has headers only: Asio and the containers. malloc is {malloc} for all of them.
- **CPU time** is what wheel_bench takes, of one thread and the kernel on its behalf; remote_bench takes real time.
- **Instructions and cache lines** are counted by callgrind, in user space: without the kernel, and without what a miss costs.
- **Few repetitions.** {repetitions} The spread is from the least to the most of them, no confidence interval.
- **Not compared**: memory, several loops at once, other processors, other systems, and timers of other languages.
"""
