"""The error that ends a report."""


class ReportError(Exception):
    """Its text is one line for the user of the report."""
