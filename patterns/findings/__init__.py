"""Findings: one module per kind of trouble, each with its evidence."""
