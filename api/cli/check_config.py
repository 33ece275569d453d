"""`ringscope check-config`: the settings as they would be used, and where each was said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from api.cli.exit import DONE, NOTHING_DONE, exit_code_of, say
from api.cli.output import write_whole
from api.settings import HostPort, Origin, Settings, SettingsError, load_with_origins
from api.settings.model import names, value_of
from collector.inventory import read_inventory

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_STDOUT: Final = Path("-")
# A driver's own parameters may be secrets too, as libpq's password= and sslpassword=.
_SECRET: Final = re.compile("pass|pwd|secret|token|key|cred", re.IGNORECASE)
_HIDDEN: Final = "hidden"


def run(file: Path | None, *, as_json: bool) -> int:
    """Say the settings on standard output; secrets in URLs are hidden.

    Parameters
    ----------
    file
        TOML file of settings; None: only the environment speaks.
    as_json
        An object for programs, else lines for people.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where a setting or the inventory it names cannot be
        used; every fault is a line on standard error.
    """

    def work() -> int:
        try:
            settings, origins = load_with_origins(file)
        except SettingsError as error:
            for fault in error.faults:
                say(fault)
            return NOTHING_DONE
        if settings.analysis.inventory is not None:
            read_inventory(settings.analysis.inventory)
        shown = _shown(settings)
        write_whole(_as_json(shown, origins) if as_json else _as_text(shown, origins), _STDOUT)
        return DONE

    return exit_code_of(work)


def _shown(settings: Settings) -> dict[str, Any]:
    """Key -> value as json has it, with what is made of other settings filled in."""
    derived = {
        "results.url": _without_secrets(settings.results_url),
        "reports.directory": str(settings.reports_directory),
    }
    keys = [f"{section}.{name}" for section, listed in names().items() for name in listed]
    return {key: derived.get(key, _plain(value_of(settings, key))) for key in keys}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, HostPort | Path | IPv4Network | IPv6Network):
        return str(value)
    return value


def _without_secrets(text: str) -> str:
    from sqlalchemy.engine import make_url

    url: URL = make_url(text)
    hidden = {name: _HIDDEN for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _as_json(shown: Mapping[str, Any], origins: Mapping[str, Origin]) -> str:
    document = {}
    for key, value in shown.items():
        origin = origins.get(key)
        document[key] = {
            "value": value,
            "source": "default" if origin is None else origin.source,
            "where": None if origin is None else origin.where,
        }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_text(shown: Mapping[str, Any], origins: Mapping[str, Origin]) -> str:
    texts = {key: _readable(value) for key, value in shown.items()}
    key_width, value_width = (max(map(len, column)) for column in (texts, texts.values()))
    return "".join(
        f"{key:{key_width}}  {text:{value_width}}  {_where(origins.get(key))}\n"
        for key, text in texts.items()
    )


def _readable(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _where(origin: Origin | None) -> str:
    return "default" if origin is None else origin.where
