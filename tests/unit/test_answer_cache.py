"""The memory of the answers that a node keeps is bounded, whatever their size and keys."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict

from catalog.api.answercache import AnswerCache, CachedAnswer, Key, default_bytes

MB = 1024 * 1024


def cache_of(most_bytes: int) -> AnswerCache:
    database: Any = SimpleNamespace(signal=SimpleNamespace(listeners=[], shared=None))
    return AnswerCache(database, most_bytes=most_bytes, staleness_seconds=0.1)


def answer_of(size: int, place: str = "/messagegroups") -> CachedAnswer:
    headers = CIMultiDict({"Content-Type": "application/json", "ETag": f'"{size}"'})
    return CachedAnswer(place=place, status=200, headers=headers, body=bytes(size))


@pytest.mark.parametrize(
    ("body", "host", "path"), [(60_000, 20, 20), (0, 20, 20), (100, 250, 7000)]
)
def test_ten_thousand_answers_take_no_more_than_is_allowed(body: int, host: int, path: int) -> None:
    """Each is for another `Host`, or another path."""
    cache = cache_of(8 * MB)
    tracemalloc.start()
    try:
        for number in range(10_000):
            key: Key = (f"http://{number:0{host}}", f"/messagegroups?x={number:0{path}}", 1)
            cache.put(key, answer_of(body, place=f"/messagegroups/{number}"), cache.ticket())
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2 * MB < taken < 8.8 * MB, f"{taken / MB:.1f} MB"


async def test_what_was_used_last_stays() -> None:
    cache = cache_of(200_000)
    keys: list[Key] = [("", f"/{number}", 1) for number in range(4)]
    for key in keys[:3]:
        cache.put(key, answer_of(60_000), 0)
    cache._use(keys[0])
    cache.put(keys[3], answer_of(60_000), 0)
    assert [cache._use(key) is not None for key in keys] == [True, False, True, True]


def test_answers_that_end_make_room() -> None:
    cache = cache_of(200_000)
    for number in range(3):
        cache.put(("", f"/{number}", 1), answer_of(60_000, place=f"/{number}"), 0)
    cache._end_at("/0")
    cache.put(("", "/3", 1), answer_of(60_000), 0)
    assert cache._use(("", "/1", 1)) is not None
    cache.clear()
    assert cache.bytes == 0


def test_an_answer_that_is_put_again_counts_once() -> None:
    cache = cache_of(100_000)
    for _ in range(5):
        cache.put(("", "/", 1), answer_of(60_000), 0)
    assert cache.bytes < 70_000


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("1073741824", 32), ("1048576", 16), (f"{1 << 40}", None), ("max", None), (None, None)],
)
def test_answers_take_a_share_of_the_memory(
    tmp_path: Path, limit: str | None, expected: int | None
) -> None:
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(f"{limit}\n")
    found = default_bytes(file) / 2**20
    assert found == expected if expected else 16 <= found <= 512
