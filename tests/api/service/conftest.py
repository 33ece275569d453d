"""Slices of one small labelled capture: two jobs of one and two seconds a turn, for 47 seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from reconstruct.slices import Slice
from tests.api.service.feeding import TrueJob, slices_of, true_jobs

if TYPE_CHECKING:
    from bench.captures import Capture


@pytest.fixture(scope="session")
def two_jobs(capture: Callable[..., Capture]) -> Capture:
    return capture("two_jobs", 350, "normal")


@pytest.fixture(scope="session")
def slices(two_jobs: Capture) -> list[Slice]:
    return slices_of(two_jobs.pcap)


@pytest.fixture(scope="session")
def truth(two_jobs: Capture) -> list[TrueJob]:
    return true_jobs(json.loads(two_jobs.truth.read_text()))
