"""The rule of the watch of change streams."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replication.reconcile.streamwatch import Observation, OriginWatch, gap_in

OWNER, ORIGIN = "eu", ("https://eu.example.com", "/messagegroups/g")
STATES = st.tuples(
    st.sampled_from(["eu", "us", "asia"]), st.integers(1, 4), st.booleans(), st.sampled_from("ab")
)


def seen(
    catalog: str, epoch: int, *, deleted: bool = False, digest: str = "a", at: float = 0.0
) -> Observation:
    authority, origin = ORIGIN
    return Observation(
        catalog=catalog,
        authority=authority,
        origin=origin,
        epoch=epoch,
        deleted=deleted,
        digest=digest,
        at=at,
    )


@given(st.lists(STATES, max_size=30))
def test_the_findings_are_those_of_a_plain_look_at_the_whole_stream(
    stream: list[tuple[str, int, bool, str]],
) -> None:
    watch, found = OriginWatch(), []
    for catalog, epoch, deleted, digest in stream:
        # As between two batches.
        watch = OriginWatch.read(watch.written())
        found += watch.observe(seen(catalog, epoch, deleted=deleted, digest=digest))

    expected = set()
    for place, (catalog, epoch, deleted, digest) in enumerate(stream):
        last = {name: (e, x, d) for name, e, x, d in stream[:place]}
        if catalog in last and epoch < last[catalog][0]:
            expected.add(("regressed", catalog, epoch, last[catalog][0]))
        for name, (e, x, d) in last.items():
            if name != catalog and e == epoch and (x, d) != (deleted, digest):
                expected.add(("diverged", catalog, epoch, e))
    assert {(one.finding, one.catalog, one.epoch, one.expected) for one in found} == expected
    assert len({one.id for one in found}) == len(expected)


@given(st.lists(STATES, min_size=1, max_size=20))
def test_a_stream_that_is_shown_again_changes_nothing(
    stream: list[tuple[str, int, bool, str]],
) -> None:
    rising = sorted(stream, key=lambda each: each[1])
    watch = OriginWatch()
    for catalog, epoch, deleted, digest in rising:
        watch.observe(seen(catalog, epoch, deleted=deleted, digest=digest))
    before = watch.written()
    catalog, epoch, deleted, digest = rising[-1]
    assert watch.observe(seen(catalog, epoch, deleted=deleted, digest=digest, at=9.0)) == []
    assert watch.written() == before


def test_a_replica_is_late_after_the_lag_and_once() -> None:
    watch = OriginWatch()
    watch.observe(seen("eu", 2, at=100.0))
    watch.observe(seen("us", 1, at=100.0))
    expected = ["eu", "us", "asia"]
    assert watch.late(OWNER, ORIGIN, expected, now=130.0, lag=60.0) == ([], 30.0)
    found, again = watch.late(OWNER, ORIGIN, expected, now=160.0, lag=60.0)
    assert [(one.finding, one.catalog, one.epoch, one.expected) for one in found] == [
        ("late", "asia", None, 2),
        ("late", "us", 1, 2),
    ]
    assert again is None
    assert watch.late(OWNER, ORIGIN, expected, now=170.0, lag=60.0) == ([], None)
    watch.observe(seen("us", 2, at=171.0))
    watch.observe(seen("asia", 2, at=171.0))
    assert watch.late(OWNER, ORIGIN, expected, now=300.0, lag=60.0) == ([], None)


def test_a_replica_that_never_had_an_entity_needs_no_tombstone() -> None:
    watch = OriginWatch()
    watch.observe(seen("eu", 3, deleted=True))
    assert watch.late(OWNER, ORIGIN, ["us"], now=100.0, lag=1.0) == ([], None)


def test_a_gap_is_about_the_stream() -> None:
    gap = gap_in(
        Observation(
            catalog="eu",
            authority="",
            origin="",
            epoch=0,
            deleted=False,
            digest="",
            at=1.0,
            gap="the log was cut",
        )
    )
    assert (gap.finding, gap.catalog, gap.detail) == ("gap", "eu", "the log was cut")
