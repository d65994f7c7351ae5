"""The engines that execute the rule: Spark, or DuckDB within the process for few rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.findings import Findings
from replication.reconcile.rule import Statement


class Engine(Protocol):
    """Executes queries. A frame is the name of a relation, which later queries may read."""

    def read(self, plan: BucketPlan) -> AbstractContextManager[str]:
        """The rows that a plan reads from the catalogs, with the hashes that the rule needs.

        Raises:
            CatalogUnread
        """

    def query(self, statement: Statement, **frames: str) -> str:
        """The result of a query, whose relations are the frames of these names."""

    def observe(
        self, frame: str, totals: Mapping[str, str]
    ) -> tuple[str, Callable[[], Mapping[str, int]]]:
        """The frame, and what gives aggregates of it once a frame made from it was kept."""

    def keep(self, frame: str) -> AbstractContextManager[str]:
        """A frame with the rows of this one, which are computed now, and once."""

    def count(self, frame: str) -> int:
        """The number of rows of a frame."""

    def fetch(self, frame: str) -> list[dict[str, Any]]:
        """The rows of a frame, in memory."""

    def findings(self, frame: str) -> AbstractContextManager[Findings]:
        """The differences in a frame with the columns of `Difference`, however many."""


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and Spark with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
