from __future__ import annotations

import json

from api.results.summary import long_part, summarized
from tests.api.results.made import long_record, record


def test_groups_are_counted_and_the_rest_is_left_out() -> None:
    equal = {"kind": "dp", "algorithm": "ring", "collective": "all_reduce"}
    assert summarized(long_record().document) == {
        "id": "job-0",
        "status": "training",
        "groups": [{**equal, "count": 2, "size": 2}, {**equal, "count": 1, "size": 3}],
        "ranks": None,
        "edges": None,
        "period_s": 1.25,
    }


def test_a_document_without_long_members_is_short() -> None:
    document = record().document
    assert summarized(document) == document
    assert long_part(document) == {}


def test_both_parts_are_the_whole_in_its_order() -> None:
    for document in (long_record().document, record().document):
        whole = {**summarized(document), **long_part(document)}
        assert json.dumps(whole) == json.dumps(document)
