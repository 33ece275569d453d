"""Sampling rates and starting times, as exporters tell them in options.

Source: RFC 5477 (samplingPacketInterval 305 and samplingPacketSpace 306, samplingSize 309 and
samplingPopulation 310, samplingProbability 311); RFC 3954, 8 (34, 48 and 50).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collector.ipfix.elements import Field
from collector.ipfix.reading import Rows
from collector.keys import KeyTable
from collector.records import ABSENT_U64
from collector.schema import I64, U32, U64

MOST_SAMPLERS: Final = 1 << 16
MOST_RATE: Final = 0xFFFF_FFFF
_WHOLE: Final = ABSENT_U64  # in place of a selector: what is said of all an exporter sends


def rate_of(rows: Rows) -> U32:
    """1 in N by what the record itself says; 0 = it says nothing."""
    rate = np.zeros(len(rows))
    if rows.has(Field.PROBABILITY):
        said = rows.of(Field.PROBABILITY)
        # 64 bits of IEEE 754; exporters that send 32 bits leave the upper half empty.
        narrow = said <= np.uint64(0xFFFF_FFFF)
        wide = np.where(narrow, 0, said).astype(np.uint64).view(np.float64)
        short = np.where(narrow, said, 0).astype(np.uint32).view(np.float32).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(narrow, short, wide)
            usable = (probability > 0) & (probability <= 1)
            rate = np.where(usable, 1 / np.where(usable, probability, 1), rate)
    for whole, part, more in (
        (Field.POPULATION, Field.CHOSEN_OF, False),
        (Field.SKIPPED_RUN, Field.CHOSEN_RUN, True),
    ):
        if rows.has(whole) and rows.has(part):
            chosen, of = rows.of(part), rows.of(whole)
            usable = (chosen != ABSENT_U64) & (of != ABSENT_U64) & (chosen > 0)
            parts = np.where(usable, chosen, 1).astype(np.float64)
            found = of.astype(np.float64) / parts + (1 if more else 0)
            rate = np.where(usable & (found >= 1), found, rate)
    for field in (Field.INTERVAL, Field.RANDOM_INTERVAL):
        if rows.has(field):
            said = rows.of(field)
            rate = np.where((said != ABSENT_U64) & (said > 0), said.astype(np.float64), rate)
    return np.where(rate <= MOST_RATE, np.rint(rate), 0).astype(np.uint32)


class Samplers:
    """The rates of all samplers, by exporter and selector or interface."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_SAMPLERS)
        self._rate = np.zeros(MOST_SAMPLERS + 1, np.uint32)
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._only: dict[int, int] = {}  # by exporter: its sampler, -1 = it has several

    def learn(
        self, exporter: I64, selector: U64, interface: U64, rate: U32, at: I64
    ) -> tuple[I64, I64, U32, U32]:
        """Take in rates in their order.

        Parameters
        ----------
        exporter, selector, interface, rate
            One row per options record that names a rate. Without a selector (`ABSENT_U64`) it is
            of an interface; without one (0), of all the exporter tells.
        at : int64
            Position in the batch.

        Returns
        -------
        tuple
            Key number, position, rate and the rate before the batch, sorted by key and position.
        """
        interface = np.where(selector == _WHOLE, interface, np.uint64(0))
        number = self._keys.number(exporter.astype(np.uint64), selector, interface)
        for key in range(len(self._numbers), len(self._keys)):
            owner, sampler, port = self._keys.keys[key].tolist()
            self._numbers[owner, sampler, port] = key
            self._only[owner] = -1 if owner in self._only or port else key
        kept = number < MOST_SAMPLERS
        number, rate, at = number[kept], rate[kept], at[kept]
        order = np.lexsort((at, number))
        number, rate, at = number[order], rate[order], at[order]
        before = self._rate[number].copy()
        self._rate[number] = rate  # of several the last stays
        return number, at, rate, before

    def rates(
        self,
        exporter: I64,
        selector: U64,
        interface: U64,
        at: I64 | None = None,
        news: tuple[I64, I64, U32, U32] | None = None,
    ) -> U32:
        """1 in N of records by their exporter and selector; 0 = not known.

        Parameters
        ----------
        exporter : int64, shape (n,)
        selector : uint64, shape (n,)
            `ABSENT_U64` where the record names none.
        interface : uint64, shape (n,)
            Where the packets were seen; 0 = unknown.
        at : int64, shape (n,)
            Position in the batch whose `news` these are: what a sampler's rate was before it
            changed counts for records before that.

        Notes
        -----
        A record that names no selector, or one that nobody described, has the rate that is told
        of its interface, or of its exporter as a whole; without one, that of the exporter's only
        sampler if the record names none. A rate that is told for the first time counts for what
        came before it too.
        """
        if not self._numbers or not len(exporter):
            return np.zeros(len(exporter), np.uint32)
        pairs = KeyTable()
        pair = pairs.number(exporter.astype(np.uint64), selector, interface)
        chosen = np.full(len(pairs), MOST_SAMPLERS, np.int64)
        for row, (owner, sampler, port) in enumerate(pairs.keys.tolist()):
            for key in ((owner, sampler, 0), (owner, _WHOLE, port), (owner, _WHOLE, 0)):
                number = self._numbers.get(key, -1)
                if number >= 0:
                    break
            else:
                number = self._only.get(owner, -1) if sampler == _WHOLE else -1
            if number >= 0:
                chosen[row] = number
        numbers = chosen[pair]
        rate = self._rate[numbers]
        if at is not None and news is not None and len(news[0]):
            rate = _in_order(numbers, at, rate, *news)
        return rate


def _in_order(
    number: I64, at: I64, rate: U32, changed: I64, since: I64, value: U32, before: U32
) -> U32:
    """Rates as they were at each record's place in the batch."""
    span = int(max(at.max(initial=0), since.max(initial=0))) + 1
    place = np.searchsorted(changed * span + since, number * span + at, side="right") - 1
    inside = place >= 0
    told = np.zeros(len(rate), np.bool_)
    told[inside] = changed[place[inside]] == number[inside]
    out = np.where(told, value[place], rate)
    # Not yet told in this batch: what held before it, if anything did.
    ahead = np.minimum(place + 1, len(changed) - 1)
    early = ~told & (changed[ahead] == number)
    earlier = np.where(before[ahead] > 0, before[ahead], value[ahead])
    return np.where(early, earlier, out).astype(np.uint32)
