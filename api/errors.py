"""Errors of this package.

ApiError
├── NothingToAnalyze     no capture held a single datagram
├── OutputFailed         the result could not be written
├── QueryFailed          a query that cannot be answered
├── ResultsError         the results database cannot be opened, read or written
├── SendFailed           datagrams could not be sent to where they were wanted
└── ContractViolation    a document is not what the schema says
"""

from __future__ import annotations


class ApiError(Exception):
    """Base of all errors that `api` raises itself."""


class NothingToAnalyze(ApiError):
    """Nothing in the given captures could be analysed."""


class OutputFailed(ApiError):
    """The result could not be written; no partial output exists."""


class SendFailed(ApiError):
    """Datagrams could not be sent to the address given."""


class QueryFailed(ApiError):
    """A query of the store is no SELECT, has a fault, or needs more than it may have."""


class ResultsError(ApiError):
    """The results database cannot be opened, or what was asked of it could not be done.

    A write that fails leaves the database as it was before.

    Parameters
    ----------
    url
        Which database; holds no password.
    reason
        What stands in the way.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class ContractViolation(ApiError):
    """A document does not fit the schema.

    Parameters
    ----------
    where
        JSON path of the first offending value, as "$.jobs[0].period_s".
    reason
        What the schema wanted.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason
