"""Fuzz the decoder, guided by coverage: `make fuzz`, or `python -m tests.fuzz FOLDER [OPTION...]`.

FOLDER keeps the inputs that reached something new, and those that failed; options are libFuzzer's.
With `--once`, the seeds and some damaged ones are checked, and that is all: this needs no fuzzer.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from tests.collector import mutate, seeds

_DAMAGED = 1000


def _once() -> None:
    from tests.fuzz.check import check

    damaged = mutate.mutations(
        mutate.together(seeds.datagrams()), _DAMAGED, np.random.default_rng(11)
    )
    checked = seeds.datagrams() + [
        row[:length].tobytes()
        for row, length in zip(damaged.data, damaged.length.tolist(), strict=True)
    ]
    for data in checked:
        check(data)
    sys.stdout.write(f"checked {len(checked)} datagrams\n")


def _fuzz(folder: Path, options: list[str]) -> None:
    atheris = import_module("atheris")  # `make fuzz` installs it, and nothing else does
    with atheris.instrument_imports(include=["collector"]):
        from tests.fuzz.check import check

    inputs = folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds.datagrams()):
        (inputs / f"seed-{number:02}").write_bytes(data)
    told = [f"-artifact_prefix={folder}/", "-max_len=2048", "-timeout=10", *options, str(inputs)]
    atheris.Setup([sys.argv[0], *told], check)
    atheris.Fuzz()


def main() -> int:
    """Do what the first argument says; returns the exit code."""
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        sys.stderr.write("set NUMBA_DISABLE_JIT=1: compiled kernels hide their branches\n")
        return 2
    if sys.argv[1:] == ["--once"]:
        _once()
    elif len(sys.argv) > 1:
        _fuzz(Path(sys.argv[1]), sys.argv[2:])
    else:
        sys.stderr.write(__doc__ or "")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
