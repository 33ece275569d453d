from __future__ import annotations

import pytest

from api.cli.page import answers_of, clean
from api.client import Client, ServiceError


def test_what_steers_a_terminal_is_taken_out_of_all_names() -> None:
    hostile = {"name\x1b[2J": ["gpu\x07-1", {"x": "a\nb\u202e\x9b"}], "n": 3, "none": None}
    assert clean(hostile) == {
        "name�[2J": ["gpu�-1", {"x": "a�b��"}],
        "n": 3,
        "none": None,
    }


def test_what_can_be_printed_stays() -> None:
    assert clean(["gpu-漢", "10.0.0.1 → 2"]) == ["gpu-漢", "10.0.0.1 → 2"]


@pytest.mark.parametrize("error", [KeyError("jobs"), TypeError("no list"), ValueError("no time")])
def test_an_answer_that_is_not_as_expected_is_one_line(error: Exception) -> None:
    said = r"http://host:1: its answers cannot be read: \w+Error"
    with pytest.raises(ServiceError, match=said), answers_of(Client("http://host:1")):
        raise error
