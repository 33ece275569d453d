"""A baseline that used the product would not be one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bench.baselines

MODULES = sorted(Path(bench.baselines.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_baselines_import_no_product(path: Path) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"collector", "reconstruct", "patterns", "api"}
