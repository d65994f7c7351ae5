"""Runs Atheris on one target until its time is over: `python -m tests.fuzz.atherisrun TARGET …`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["catalog", "replication"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
