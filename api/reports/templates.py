"""The pages' templates, which escape whatever is put into them."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from api.reports.units import (
    calendar_time,
    clock_time,
    human_bytes,
    human_duration,
    human_share,
    human_span,
)


def template(name: str) -> Template:
    """A template of this package by its file's name."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("api.reports", ""),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,  # an upgrade of the files must not meet a service that runs
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        volume=human_bytes,
        duration=human_duration,
        clock=clock_time,
        calendar=calendar_time,
        sure="{:.2f}".format,
        share=human_share,
        span=human_span,
        count="{:,}".format,
    )
    return environment
