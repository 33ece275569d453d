"""Benchmarks: how right, how fast, and against what truth."""
