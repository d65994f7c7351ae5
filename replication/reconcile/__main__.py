"""The job for spark-submit and `python -m`: plain arguments in, an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from replication.reconcile.catalogs import CatalogInput
from replication.reconcile.errors import ReconcileError
from replication.reconcile.job import run_reconcile
from replication.reconcile.summary import Summary

EQUAL, DIFFERENT, FAILED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 says equal, 1 different, 2 that nothing is known."""
    given = _parser().parse_args(arguments)
    try:
        summary = run_reconcile(
            _catalogs(given.catalog, given.token_from),
            report=given.report,
            repair=given.repair,
            master=given.master,
            verify=not given.fast,
            settle_seconds=given.settle_seconds,
            progress=lambda line: print(line, file=sys.stderr),
        )
    except ReconcileError as error:
        print(error.message, file=sys.stderr)
        if error.hint:
            print(error.hint, file=sys.stderr)
        return FAILED
    document = orjson.dumps(summary.to_document(), option=orjson.OPT_INDENT_2).decode()
    print(document if given.json else _table(summary))
    return EQUAL if summary.is_equal else DIFFERENT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="concord reconcile", description="Compare catalogs and say where they differ."
    )
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="NAME=URL", help="two or more"
    )
    parser.add_argument(
        "--token-from",
        action="append",
        default=[],
        metavar="NAME=VARIABLE",
        help="the environment variable that holds the token for a catalog",
    )
    parser.add_argument("--report", type=Path, metavar="DIR", help="where to write the report")
    parser.add_argument("--repair", action="store_true", help="have replicas fetch again")
    parser.add_argument("--fast", action="store_true", help="compare stored digests only")
    parser.add_argument("--settle-seconds", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    under_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    parser.add_argument("--master", default="" if under_submit else "local[*]")
    return parser


def _catalogs(given: Sequence[str], tokens: Sequence[str]) -> list[CatalogInput]:
    variables = dict(one.partition("=")[::2] for one in tokens)
    catalogs = [CatalogInput.parse(one) for one in given]
    return [
        replace(one, token=_token(variables[one.name])) if one.name in variables else one
        for one in catalogs
    ]


def _token(variable: str) -> str:
    if variable not in os.environ:
        raise ReconcileError(
            f"There is no environment variable {variable}.", "Set it to the catalog's token."
        )
    return os.environ[variable]


def _table(summary: Summary) -> str:
    heads = ["finding", *(one.name for one in summary.catalogs), "all"]
    lines = [[finding, *map(str, counts), str(all_)] for finding, counts, all_ in summary.matrix()]
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    text = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in (heads, *lines)
    ]
    return "\n".join([*text, summary.verdict(), *map(str, summary.paths)])


if __name__ == "__main__":
    sys.exit(main())
