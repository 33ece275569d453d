from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.results.rows import escaped, unescaped
from tests.api.results.made import HOSTILE

ANY_TEXT = st.text(st.characters(exclude_categories=[])) | st.sampled_from(HOSTILE)


@given(ANY_TEXT)
def test_an_escaped_text_is_plain_and_comes_back(text: str) -> None:
    plain = escaped(text)
    assert plain.isascii()
    assert plain.isprintable()
    assert unescaped(plain) == text


@given(ANY_TEXT, ANY_TEXT)
def test_two_texts_are_never_escaped_alike(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@pytest.mark.parametrize("text", ["job-0", "slow_iteration", "gpu-001:Ethernet0", "10.0.0.1 a/b%"])
def test_usual_names_are_stored_as_they_are(text: str) -> None:
    assert escaped(text) == text
