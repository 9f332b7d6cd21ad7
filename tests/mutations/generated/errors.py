class MutationError(Exception):
    """Nothing can be said of any mutant; the message says why."""
