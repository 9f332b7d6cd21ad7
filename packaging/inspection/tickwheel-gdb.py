"""Shows timers, services and wheels in gdb:

    (gdb) source /usr/share/tickwheel/tickwheel-gdb.py
    (gdb) print timers
    $1 = tickwheel::timer_service: open, tick 131.1 us, holds its loop, 0 refused, ... = {wheel = tickwheel::wheel: ...}

It reads memory, and calls nothing: so it works on core files. The program must be built with -g. Of a library without debugging
information it shows less.
"""

import re

import gdb
import gdb.printing

NEVER = 2**64 - 1
UNREF, TAGS = 1, 7  # the lowest bits of timer::service_


def number(value):
    """The number of an enum, an integer, or a class that consists of one, as durations and times do."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = value[next(field for field in value.type.strip_typedefs().fields() if hasattr(field, "bitpos"))]
    return int(value)


def duration(nanoseconds):
    """As people read it: with four digits, in the largest unit of which there is one."""
    for unit, length in (("h", 3600 * 10**9), ("min", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 1000)):
        if abs(nanoseconds) >= length:
            return f"{nanoseconds / length:.4g} {unit}"
    return f"{nanoseconds} ns"


def pointed_to(address, name):
    return gdb.Value(address).cast(gdb.lookup_type(name).pointer()).dereference()


def name_of(function):
    """The member function that a handler calls, or else its symbol, or its address if the file has no symbols."""
    shown = function.format_string(raw=True, styling=False, symbols=True)
    symbol = re.search(r"<(.*)>\s*$", shown)
    if not symbol:
        return hex(int(function))
    member = re.search(r"member_call<[^&]*&\(?([\w:]+)[(,>]", symbol[1])
    return member[1] if member else symbol[1]


def tick_of(wheel):
    return int(wheel["earliest_"]) - (0 if wheel["at_end_of_time_"] else 1)


def timers_of(service):
    """The armed_timers of a service. Compilers describe a class with virtual functions only where these are defined, for instance in a
    library without -g. The member that follows the pointer to these functions is then found by its place."""
    dispatcher = service["dispatcher_"]
    if is_complete(dispatcher):
        return dispatcher["timers_"]
    return pointed_to(int(service.address) + gdb.lookup_type("void").pointer().sizeof, "tickwheel::detail::armed_timers")


def value_of(count):
    """The value of a watched_count."""
    return int(count["watched_"]) - int(count["before_"]) - 1


def is_complete(value):
    return bool(value.type.strip_typedefs().fields())


class Printer:
    """A printer, with a clear line for a value that cannot be shown."""

    def __init__(self, value):
        self.value = value.referenced_value() if value.type.code == gdb.TYPE_CODE_REF else value

    def to_string(self):
        name = str(self.value.type.strip_typedefs().unqualified())
        try:
            return f"{name}: {self.text()}"
        except (gdb.error, gdb.MemoryError, ValueError, OverflowError) as error:
            return f"{name}: cannot be shown ({error}); is tickwheel of another version, or built without -g?"


class Wheel(Printer):
    def text(self):
        wheel = self.value
        levels, slots = (int(wheel["geometry_"][field]) for field in ("levels", "slots"))
        arms, ended = (value_of(wheel[count]) for count in ("arms_", "ended_"))
        armed = arms - ended
        fired = int(wheel["lateness_"]["count_"])
        running = ", in a pass" if int(wheel["pass_"]) else ""
        expiry = f"next visit at {int(wheel['expiry_'])}" if armed else "nothing is due"
        return (f"{levels} x {slots} slots, now {tick_of(wheel)}{running}, {armed} armed ({arms} armed, "
                f"{ended - fired} cancelled, {fired} fired in all), {expiry}")


class Service(Printer):
    def text(self):
        timers, dispatcher = timers_of(self.value), self.value["dispatcher_"]
        if not int(timers["driver_"]):
            return "closed" if timers["open_expected_"] else "never opened"
        tick = 1 << int(timers["timeline_"]["length_"]["shift_"])
        held = "holds its loop" if timers["alive_"]["held_"] else "does not hold its loop"
        text = f"open, tick {duration(tick)}, {held}, {int(timers['refused_'])} refused"
        if is_complete(dispatcher):
            log = dispatcher["log_"]
            text += (f", {int(dispatcher['passes_'])} passes, {int(dispatcher['stalls_'])} stalls of "
                     f"{duration(number(dispatcher['stalled_']))}, {int(log['slow_handlers_'])} slow handlers")
            if log["lateness_"]["running_"]:
                text += f", runs {name_of(log['lateness_']['handler_'])}"
        return text

    def children(self):
        try:
            timers = timers_of(self.value)
            if int(timers["driver_"]):  # open, and so it has a wheel, at the beginning of the optional
                yield "wheel", pointed_to(int(timers["wheel_"].address), "tickwheel::wheel")
        except gdb.error:
            pass  # to_string says why


class Timer(Printer):
    def text(self):
        timer = self.value
        handler = name_of(timer["run_"])
        ref = "" if not int(timer["service_"]) & UNREF else ", unref"
        return f"{self.due(timer)}{ref}, handler {handler}"

    @staticmethod
    def due(timer):
        """Counts from the last time that the loop knows of: gdb has no clock, and a core file neither."""
        deadline = int(timer["deadline_"])
        if deadline == NEVER:
            return "not armed"
        timers = timers_of(pointed_to(int(timer["service_"]) & ~TAGS, "tickwheel::timer_service"))
        shift = int(timers["timeline_"]["length_"]["shift_"])
        origin = number(timers["timeline_"]["origin_"])
        reached = tick_of(pointed_to(int(timers["wheel_"].address), "tickwheel::wheel"))
        left = (deadline << shift) - max(reached << shift, number(timers["clock_"]["stamp_"]) - origin)
        return f"armed, due in {duration(left)}" if left > 0 else f"armed, due for {duration(-left)}"


class WheelEntry(Printer):
    def text(self):
        deadline = int(self.value["deadline_"])
        return f"{'not armed' if deadline == NEVER else f'armed for tick {deadline}'}, handler {name_of(self.value['run_'])}"


def register():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("tickwheel")
    for name, printer in (("wheel", Wheel), ("timer_service", Service), ("timer", Timer), ("wheel_entry", WheelEntry)):
        printers.add_printer(name, f"^tickwheel::{name}$", printer)
    # those that are a timer and nothing more
    printers.add_printer("timers", "^tickwheel::(member|callback|interval)_timer<.*>$", Timer)
    gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)


register()
