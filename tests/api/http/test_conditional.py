from __future__ import annotations

import pytest

from api.http.conditional import entity_tag, is_known

TAG = entity_tag({"a": 1}, "x")


def test_a_tag_follows_from_the_parts() -> None:
    assert entity_tag({"a": 1}, "x") == TAG
    others = {entity_tag({"a": 2}, "x"), entity_tag({"a": 1}, "y"), entity_tag({"a": 1})}
    assert len(others | {TAG}) == 4
    assert entity_tag("\ud800") != entity_tag("\udfff")


@pytest.mark.parametrize(
    ("known", "same"),
    [
        ([TAG], True),
        ([TAG.removeprefix("W/")], True),
        ([f'"other", {TAG}'], True),
        ([f'{TAG},W/"other"'], True),
        (['"other"', TAG], True),
        ([f'"with, a comma" , {TAG}'], True),
        (["*"], True),
        ([" * "], True),
        (None, False),
        ([], False),
        ([""], False),
        (['""'], False),
        (['"other"'], False),
        (["*", '"other"'], False),
        ([TAG.replace('"', "")], False),
        ([TAG[:-1]], False),
        ([TAG.upper()], False),
        (['"' * 10_001], False),
    ],
)
def test_tags_a_client_names(known: list[str] | None, same: bool) -> None:
    assert is_known(TAG, known) == same
