"""`python -m api`: the command from a source tree that isn't installed."""

from api.cli import main

main()
