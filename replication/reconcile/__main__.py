"""The command `concord reconcile` as a program for spark-submit and `python -m`."""

from __future__ import annotations

import sys

from catalog.cli import app

if __name__ == "__main__":
    app(["reconcile", *sys.argv[1:]], prog_name="concord")
