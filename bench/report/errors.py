"""What ends a report."""


class ReportError(Exception):
    """Its text is for who ran the report: one line."""
