"""Benchmarks: how right, how fast, and against what truth."""

from api.cli.kernels import find_place

find_place()  # before anything compiled is imported
