from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.federation import Federation, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from replication.reconcile.sparksession import open_session

    # For seconds of work, Java's second compiler costs more than it gains.
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1"
    with open_session("local[2]", 0) as session:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        yield session


@pytest.fixture
def federation() -> Iterator[Federation]:
    with served() as nodes:
        yield nodes
