"""What became of a mutant."""

KILLED, SURVIVED, NO_CODE, SAME_CODE = "killed", "survived", "does not compile", "makes the same code"
NO_END = ", which does not end"


class Outcome:
    def __init__(self, verdict, by=""):
        self.verdict = verdict
        self.by = by  # the test that failed, and how
