"""Which plan each set of a batch follows, as templates come and go between them."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from collector.ipfix.messages import FIRST_DATA, VERSION_5_RECORDS, Sets
from collector.ipfix.plans import VERSION_5, Plan
from collector.ipfix.templates import Templates
from collector.ipfix.waiting import Held, Waiting
from collector.schema import I64, U8

NO_PLAN = -1


class Replay(NamedTuple):
    """Sets of former batches whose template has come."""

    plan: int
    held: list[Held]


class Layouts:
    """The plans of a batch's sets; what changes them is taken in order."""

    def __init__(self, sets: Sets, stream: I64, templates: Templates) -> None:
        self._sets = sets
        self._templates = templates
        self.plans: list[Plan] = []
        self._index: dict[int, int] = {}
        self._changes: dict[int, list[tuple[int, int]]] = {}
        # By set: -1 where it holds no records.
        data = (sets.id >= FIRST_DATA) & (stream >= 0)
        self._key = np.where(data, stream << 16 | sets.id, -1)

    def add(self, plan: Plan) -> int:
        """The number of a plan within this batch."""
        number = self._index.setdefault(id(plan), len(self.plans))
        if number == len(self.plans):
            self.plans.append(plan)
        return number

    def change(self, position: int, stream: int, template: int, plan: Plan | None) -> None:
        """From the set at `position` on, sets of this template have that plan."""
        number = NO_PLAN if plan is None else self.add(plan)
        self._changes.setdefault(stream << 16 | template, []).append((position, number))

    def start(self) -> None:
        """Take the plans that are in force before the first set."""
        keys, self._which = np.unique(self._key, return_inverse=True)
        self._keys = keys.tolist()
        self._before = [self._in_force(key) for key in self._keys]

    def _in_force(self, key: int) -> int:
        plan = self._templates.plan(key >> 16, key & 0xFFFF) if key >= 0 else None
        return NO_PLAN if plan is None else self.add(plan)

    def later(self, row: int) -> int:
        """The next plan that the template of a set gets within the batch; `NO_PLAN` = none."""
        changes = self._changes.get(int(self._key[row]), [])
        for place in range(bisect_right(changes, (row, len(self.plans))), len(changes)):
            if changes[place][1] != NO_PLAN:
                return changes[place][1]
        return NO_PLAN

    def plan(self) -> I64:
        """The plan of each set; int64, shape (sets,), `NO_PLAN` = its template is not known.

        Notes
        -----
        A set that comes before its template in the batch follows the template: it would have
        waited for it.
        """
        out: I64 = np.array(self._before, np.int64)[self._which]
        if self._changes:
            order = np.argsort(self._which, kind="stable")
            bounds = np.searchsorted(self._which[order], np.arange(len(self._keys) + 1))
            for row, key in enumerate(self._keys):
                changes = self._changes.get(key)
                if changes is None:
                    continue
                places = order[bounds[row] : bounds[row + 1]]
                since, plans = (np.array(column, np.int64) for column in zip(*changes, strict=True))
                plans = np.concatenate(([self._before[row]], plans))
                # Before a plan there is none: the next that comes.
                for step in range(len(plans) - 2, -1, -1):
                    if plans[step] == NO_PLAN:
                        plans[step] = plans[step + 1]
                out[places] = plans[np.searchsorted(since, places, side="right")]
        out[self._sets.id == VERSION_5_RECORDS] = self.add(VERSION_5)
        return out


def follow(
    buffer: U8,
    sets: Sets,
    stream: I64,
    version: I64,
    restarted: I64,
    templates: Templates,
    waiting: Waiting,
) -> tuple[Layouts, list[Replay]]:
    """Take in the templates among the sets of a batch.

    Parameters
    ----------
    buffer : uint8
    sets
        In order.
    stream, version : int64, shape (messages,)
        The stream of each message, -1 = none; its protocol.
    restarted : int64
        Messages from exporters that began anew: what they announced before is void.
    templates, waiting
        Of all batches.

    Returns
    -------
    Layouts
        Complete.
    list of Replay
        What waited for the templates that came.
    """
    of_set = stream[sets.message]
    layouts = Layouts(sets, of_set, templates)
    layouts.start()
    announcing = np.flatnonzero((sets.id > 1) & (sets.id < 4) & (of_set >= 0))
    events = [(int(row), 1, int(of_set[row])) for row in announcing]
    if len(restarted):
        first = np.searchsorted(sets.message, restarted)
        events += [
            (int(row), 0, int(stream[message]))
            for row, message in zip(first, restarted, strict=True)
        ]
        events.sort()
    replays = []
    for row, announces, number in events:
        if not announces:
            for template in templates.forget(number):
                layouts.change(row, number, template, None)
            continue
        changed = templates.announce(
            number,
            int(version[sets.message[row]]),
            int(sets.id[row]),
            buffer[sets.start[row] : sets.end[row]].tobytes(),
        )
        for template, plan in changed:
            layouts.change(row, number, template, plan)
            held = waiting.take(number, template) if plan is not None else []
            if held and plan is not None:
                replays.append(Replay(layouts.add(plan), held))
    return layouts, replays
