"""What is printed of mutants."""
import sys

from judgements import EQUIVALENT, HOLE, UNJUDGED
from outcome import KILLED, NO_CODE, NO_END, SAME_CODE, SURVIVED

GOAL = 90  # percent of those that are not equivalent


class Tally:
    """Says what became of each mutant, and of all."""

    def __init__(self, judgements):
        self._judgements = judgements
        self._without_end = 0
        self._counts = dict.fromkeys((KILLED, NO_CODE, SAME_CODE, EQUIVALENT, HOLE, UNJUDGED), 0)

    def add(self, mutant, outcome):
        what = outcome.verdict
        verdict, reason = self._judgements.of(mutant.key)
        if what == SURVIVED:
            what = verdict
        self._counts[what] += 1
        where = f"{mutant.file}:{mutant.line}: {mutant.operator}"
        if what == KILLED:
            self._without_end += outcome.by.endswith(NO_END)
            print(f"killed      {where}: by {outcome.by}")
            if verdict != UNJUDGED:
                print(indented(f"although the list of survivors says: {verdict}: {reason}"))
        elif what in (NO_CODE, SAME_CODE):
            print(f"no mutant   {where}: it {what}")
        elif what == UNJUDGED:
            print(f"SURVIVED    {where}\n{indented(mutant.key)}")
        else:
            print(f"{what:<11} {where}: {reason}\n{indented(mutant.key)}")
        sys.stdout.flush()

    @property
    def percentage(self):
        counted = self._counts[KILLED] + self._counts[HOLE] + self._counts[UNJUDGED]
        return 100 * self._counts[KILLED] / counted if counted else 100

    def is_good(self):
        return self._counts[UNJUDGED] == 0 and self.percentage >= GOAL

    def __str__(self):
        c = self._counts
        tried = c[KILLED] + c[EQUIVALENT] + c[HOLE] + c[UNJUDGED]
        return (f"{tried} mutants: {c[KILLED]} killed, {self._without_end} of them because they do not end; "
                f"{c[EQUIVALENT]} equivalent, {c[HOLE]} holes, {c[UNJUDGED]} survivors without a verdict\n"
                f"not counted: {c[NO_CODE]} that do not compile, {c[SAME_CODE]} that make the same code\n"
                f"{self.percentage:.1f} % of those that are not equivalent are killed; the goal is {GOAL} %")


def indented(text):
    return "\n".join(f"            {line}" for line in text.splitlines())
