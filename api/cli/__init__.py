"""The command `ringscope`.

Only typer is imported here; each command imports what it needs when it runs, so that
`ringscope --help` answers at once.
"""

from __future__ import annotations

from api.cli.app import app


def main() -> None:
    """Entry point of the installed command."""
    app(prog_name="ringscope")
