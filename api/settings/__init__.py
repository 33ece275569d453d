"""Settings of the running service: what can be set, and reading it from where it is said.

A TOML file says `key` under `[section]`; the environment says RINGSCOPE_SECTION__KEY and wins over
the file; an option of the command line wins over both. An empty text stands for "none" wherever
none may be said. docs/settings.md has the table.
"""

from __future__ import annotations

from api.settings.loading import Origin, SettingsError, load, load_with_origins
from api.settings.model import Settings
from api.settings.values import HostPort

__all__ = ["HostPort", "Origin", "Settings", "SettingsError", "load", "load_with_origins"]
