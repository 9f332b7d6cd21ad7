"""What was found out about mutants that survive: a list for people to write and to read.

    # a comment
    src/core/wheel.cpp: comparison
    - if (a < b) f();
    + if (a <= b) f();
    equivalent: f() does nothing when they are equal

A mutant is named by the text of its line, before and after. Its verdict is `equivalent`, or `hole`: no test notices.
"""
import re

from errors import MutationError

EQUIVALENT, HOLE, UNJUDGED = "equivalent", "hole", "unjudged"


class Judgements:
    def __init__(self, text, name="survivors"):
        self._verdicts = {}  # of a mutant's key: the verdict and the reason
        for block in re.split(r"\n\s*\n", text):
            lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
            if not lines:
                continue
            if len(lines) < 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ ") and lines[2] != "+":
                raise MutationError(f"{name}: after its first line a mutant has one that begins with - and one with +: {lines[0]}")
            verdict, _, reason = " ".join(line.strip() for line in lines[3:]).partition(": ")
            if verdict not in (EQUIVALENT, HOLE) or not reason:
                raise MutationError(f"{name}: a verdict is `equivalent: reason` or `hole: reason`: {' '.join(lines[3:])}")
            key = "\n".join(lines[:3])
            if key in self._verdicts:
                raise MutationError(f"{name}: is judged twice:\n{key}")
            self._verdicts[key] = (verdict, reason)

    def of(self, key):
        """The verdict and its reason."""
        return self._verdicts.get(key, (UNJUDGED, ""))

    def unknown(self, keys):
        """The judged mutants that are none of these."""
        return [key for key in self._verdicts if key not in keys]
