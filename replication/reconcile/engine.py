"""The engines that execute the rule: Spark, or DuckDB within the process for few rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.findings import Findings
from replication.reconcile.rule import Statement

Frame = TypeVar("Frame")


class Engine(Protocol[Frame]):
    """Executes queries over relations, the frames."""

    def read(self, plan: BucketPlan) -> AbstractContextManager[Frame]:
        """The rows that a plan reads from the catalogs, with the hashes that the rule needs.

        Raises:
            CatalogUnread
        """

    def query(self, statement: Statement, **frames: Frame) -> Frame:
        """The result of a query, whose relations are the frames of these names."""

    def observe(
        self, frame: Frame, totals: Mapping[str, str]
    ) -> tuple[Frame, Callable[[], Mapping[str, int]]]:
        """The frame, and what gives aggregates of it once a frame made from it was counted."""

    def keep(self, frame: Frame) -> AbstractContextManager[Frame]:
        """The frame, which is computed once however often it is read."""

    def count(self, frame: Frame) -> int:
        """The number of rows of a frame."""

    def fetch(self, frame: Frame) -> list[dict[str, Any]]:
        """The rows of a frame, in memory."""

    def findings(self, frame: Frame) -> AbstractContextManager[Findings]:
        """The differences in a frame with the columns of `Difference`, however many."""


def is_submitted() -> bool:
    """Whether spark-submit has started this program, and Spark with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
