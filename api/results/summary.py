"""A job's document in two parts: a short one that is often read and written, and the rest.

The short part is enough for lists and metrics. It changes with each iteration, the rest only when
the job is studied anew, and the rest is nearly all of a document's length.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from api.results.records import Document

_LONG: Final = ("groups", "ranks", "edges")


def summarized(document: Document) -> Document:
    """The short part of a document.

    Parameters
    ----------
    document
        As in `JobRecord`.

    Returns
    -------
    dict
        The same members in the same order. In the place of "groups" are counts of equal ones:
        "kind", "algorithm", "collective", "count" and "size", the number of members. "ranks" and
        "edges" are None.
    """
    short: Document = {name: None if name in _LONG else value for name, value in document.items()}
    if "groups" in document:
        short["groups"] = _counted(document["groups"])
    return short


def long_part(document: Document) -> Document:
    """The rest: {**summarized(document), **long_part(document)} is the document."""
    return {name: document[name] for name in _LONG if name in document}


def _counted(groups: list[Document]) -> list[dict[str, Any]]:
    counts = Counter(
        (group["kind"], group["algorithm"], group["collective"], len(group["members"]))
        for group in groups
    )
    return [
        {
            "kind": kind,
            "algorithm": algorithm,
            "collective": collective,
            "count": count,
            "size": size,
        }
        for (kind, algorithm, collective, size), count in counts.items()
    ]
