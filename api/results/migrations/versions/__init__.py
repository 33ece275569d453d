"""The steps; the number in a module's name is its revision."""
