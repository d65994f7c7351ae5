"""The interface of the engines that execute the rule: Spark, and in-process DuckDB for few rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.findings import Findings
from replication.reconcile.rule import Statement


class Engine(Protocol):
    """Executes queries. A frame is the name of a relation that later queries can read."""

    def read(
        self, plan: BucketPlan, progress: Callable[[str], None]
    ) -> AbstractContextManager[str]:
        """A frame of the rows that a plan reads, with the hashes that the rule needs.

        Args:
            progress: receives a line from time to time, while the work takes long.

        Raises:
            CatalogUnread: a catalog could not be read, or sent malformed rows.
        """

    def query(self, statement: Statement, **frames: str) -> str:
        """The result of a query; `frames` gives a frame to each relation of the statement."""

    def observe(
        self, frame: str, totals: Mapping[str, str]
    ) -> tuple[str, Callable[[], Mapping[str, int]]]:
        """Return the frame to read in place of `frame`, and a function that returns the totals.

        The function may be called after a frame derived from the returned frame was kept.

        Args:
            totals: aggregate expressions over `frame`, by name.
        """

    def keep(self, frame: str) -> AbstractContextManager[str]:
        """A frame with the rows of `frame`, computed once, when the context is entered."""

    def count(self, frame: str) -> int:
        """The number of rows of a frame."""

    def fetch(self, frame: str) -> list[dict[str, Any]]:
        """The rows of a frame, loaded into memory."""

    def findings(self, frame: str) -> AbstractContextManager[Findings]:
        """The differences in a frame with the columns of `Difference`, for any number of rows."""


def is_submitted() -> bool:
    """Whether spark-submit has started the program and Spark."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
