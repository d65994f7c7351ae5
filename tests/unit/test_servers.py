"""The servers that a PostgreSQL URL names."""

from __future__ import annotations

import pytest

from catalog.store.servers import each_server


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://db/concord", ["postgresql://db/concord"]),
        ("postgresql:///concord", ["postgresql:///concord"]),
        (
            "postgresql://me:p%40s,s@db1,[::1]:5433/concord?sslmode=require",
            [
                "postgresql://me:p%40s,s@db1/concord?sslmode=require",
                "postgresql://me:p%40s,s@[::1]:5433/concord?sslmode=require",
            ],
        ),
        (
            "postgresql://me@/concord?host=/run/a,/run/b&port=5432,5433",
            [
                "postgresql://me@/concord?host=%2Frun%2Fa&port=5432",
                "postgresql://me@/concord?host=%2Frun%2Fb&port=5433",
            ],
        ),
        (
            "postgresql:///concord?host=a,b&port=5433",
            ["postgresql:///concord?host=a&port=5433", "postgresql:///concord?host=b&port=5433"],
        ),
    ],
)
def test_a_url_names_each_of_its_servers(url: str, servers: list[str]) -> None:
    assert each_server(url) == servers
