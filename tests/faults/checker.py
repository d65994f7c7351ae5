"""Holds what is known after a run against the promises of replication. Pure.

The promises are those of the table in docs/faults.md. Each function yields the violations of one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from catalog.client.replication import DigestRow
from tests.faults.evidence import Evidence, LogRow, Restoration, Shown
from tests.faults.history import WriteRecord
from tests.faults.writers import group_of

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, with the evidence."""

    promise: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.evidence}"


def violations(evidence: Evidence) -> list[Violation]:
    """All violations of all promises."""
    checks = (
        _writes,
        _settling,
        _agreement,
        _order_of_logs,
        _provenance_of_logs,
        _echoes,
        _streams,
        _restoration,
    )
    return [violation for check in checks for violation in check(evidence)]


# No acknowledged write is lost at its authority, and none is resurrected.


def _writes(evidence: Evidence) -> Iterator[Violation]:
    records = _as_known(evidence.history.records, evidence.restoration)
    deletes: dict[str, list[WriteRecord]] = defaultdict(list)
    puts: dict[str, list[WriteRecord]] = defaultdict(list)
    for record in records:
        if record.may_have_happened:
            (deletes if record.is_delete else puts)[record.path].append(record)
    for path, written in puts.items():
        ends = [*deletes[path], *deletes[group_of(path)]]
        acknowledged = [record for record in written if record.outcome == "acknowledged"]
        yield from _order_of_writes(path, acknowledged)
        shown = evidence.shown.get(path)
        if shown is None:
            yield from _lost(path, acknowledged, ends)
        else:
            yield from _lost_or_resurrected(path, shown, written, ends)


def _as_known(
    records: Iterable[WriteRecord], restoration: Restoration | None
) -> Iterator[WriteRecord]:
    """The writes, but those in doubt that a restoration may have undone."""
    for record in records:
        if (
            restoration is not None
            and record.node == restoration.node
            and record.ended > restoration.backed_up
            and record.began < restoration.restored
            and record.may_have_happened
        ):
            record = replace(
                record, outcome="in doubt", epoch=None, expected=None, ended=restoration.restored
            )
        yield record


def _order_of_writes(path: str, acknowledged: list[WriteRecord]) -> Iterator[Violation]:
    promise = "each write raises the epoch of its entity"
    by_epoch: dict[int | None, WriteRecord] = {}
    for record in acknowledged:
        other = by_epoch.setdefault(record.epoch, record)
        if other is not record:
            yield Violation(promise, f"one epoch for two writes of {path}: {other} and {record}")
        if record.expected is not None and record.epoch != record.expected + 1:
            yield Violation("a write on a condition replaces what its client saw", str(record))
    by_end = sorted(acknowledged, key=lambda record: record.ended)
    for record in sorted(acknowledged, key=lambda record: record.began):
        earlier = [each for each in by_end if each.ended < record.began]
        last = max(earlier, key=lambda each: each.epoch or 0, default=None)
        if last is not None and (last.epoch or 0) >= (record.epoch or 0):
            yield Violation(promise, f"{record} came after {last}")


def _lost(
    path: str, acknowledged: list[WriteRecord], deletes: list[WriteRecord]
) -> Iterator[Violation]:
    """An entity that is not there: every write needs a delete that may have come after it."""
    for record in acknowledged:
        if not any(delete.ended > record.began for delete in deletes):
            yield Violation("no acknowledged write is lost", f"{path} is not there; {record}")
            return


def _lost_or_resurrected(
    path: str, shown: Shown, written: list[WriteRecord], deletes: list[WriteRecord]
) -> Iterator[Violation]:
    lost, found = "no acknowledged write is lost", f"{path} is {shown.token} of epoch {shown.epoch}"
    source = next((record for record in written if record.token == shown.token), None)
    if source is None:
        yield Violation("nothing is there that nobody wrote", found)
        return
    if source.epoch is not None and source.epoch != shown.epoch:
        yield Violation(lost, f"{found}; {source}")
    for record in written:
        if record.epoch is None or record is source:
            continue
        if record.epoch >= shown.epoch:
            yield Violation(lost, f"{found}; {record}")
    for delete in deletes:
        if delete.outcome == "acknowledged" and delete.began > source.ended:
            yield Violation("no deleted entity is resurrected", f"{found}; {delete}")


# Every replica equals its authority in the end.


def _settling(evidence: Evidence) -> Iterator[Violation]:
    for what in evidence.unsettled:
        yield Violation("everything settles when faults end", f"{what} did not come true")


def _agreement(evidence: Evidence) -> Iterator[Violation]:
    promise = "every replica equals its authority in the end"
    held = [_by_authority(rows) for rows in evidence.held]
    carried = evidence.topology.carried()
    for number, rows in enumerate(held):
        for author, authority in enumerate(evidence.authorities):
            if author == number or (number, author) in evidence.shown_by_others:
                continue
            expected = held[author][authority] if (number, author) in carried else set()
            if rows[authority] != expected:
                different = _listed(rows[authority] ^ expected)
                yield Violation(promise, f"node {number} of the entities of {author}: {different}")
    for where, what in evidence.differences.items():
        yield Violation(promise, f"{where}: {what}")
    for link, conflicts in evidence.conflicts.items():
        if conflicts:
            yield Violation("no conflict stays that has no cause", f"{link}: {_listed(conflicts)}")


def _by_authority(rows: Iterable[DigestRow]) -> dict[str, set[DigestRow]]:
    found: dict[str, set[DigestRow]] = defaultdict(set)
    for row in rows:
        if row.xid != "/":
            found[row.authority].add(row)
    return found


# The epochs of an origin ascend in every feed.


def _order_of_logs(evidence: Evidence) -> Iterator[Violation]:
    for number, lives in enumerate(evidence.logs):
        for log in lives:
            for rows in _by_source(log, evidence, number).values():
                for one, other in pairwise(rows):
                    # Others are logged again when a child of theirs comes, goes or changes.
                    is_again = other.kind != "version" and other.epoch == one.epoch
                    if other.epoch <= one.epoch and not is_again:
                        yield Violation(
                            "the epochs of an origin ascend in every feed",
                            f"node {number}: {one}, then {other}",
                        )


def _by_source(
    log: Iterable[LogRow], evidence: Evidence, number: int
) -> dict[tuple[str, str], list[LogRow]]:
    """The rows of each origin; without those of a restored authority at other nodes, where the
    authority's own word replaces what it does not know of any more."""
    restored = _restored_authority(evidence)
    found: dict[tuple[str, str], list[LogRow]] = defaultdict(list)
    for row in log:
        is_rewritten = row.authority == restored and row.authority != evidence.authorities[number]
        if row.kind != "registry" and not is_rewritten:
            found[row.source].append(row)
    return found


def _restored_authority(evidence: Evidence) -> str | None:
    if evidence.restoration is None:
        return None
    return evidence.authorities[evidence.restoration.node]


# A node takes nothing that its authority never said; so no lie, and no deletion by an incomplete
# listing.


def _provenance_of_logs(evidence: Evidence) -> Iterator[Violation]:
    said = {
        (row.authority, row.origin, row.epoch, row.digest, row.action == "deleted")
        for number, lives in enumerate(evidence.logs)
        for log in lives
        for row in log
        if row.authority == evidence.authorities[number]
    }
    restored = _restored_authority(evidence)
    # A server that is walked counts epochs by itself, and its walker tells what is deleted.
    walked = {(number, evidence.authorities[a]) for number, a in evidence.shown_by_others}
    for number, lives in enumerate(evidence.logs):
        for row in (row for log in lives for row in log):
            if row.authority == evidence.authorities[number] or row.kind == "registry":
                continue
            if (number, row.authority) in walked:
                continue
            is_deleted = row.action == "deleted"
            if is_deleted and row.authority == restored:
                continue  # The operator had them dropped.
            if (row.authority, row.origin, row.epoch, row.digest, is_deleted) not in said:
                promise = (
                    "nothing is deleted that its authority did not delete"
                    if is_deleted
                    else "nothing is taken that its authority never said"
                )
                yield Violation(promise, f"node {number}: {row}")


# A federation settles in one pass.


def _echoes(evidence: Evidence) -> Iterator[Violation]:
    for number, rows in enumerate(evidence.grown):
        if rows:
            yield Violation(
                "what has settled writes nothing more", f"the log of node {number} grew by {rows}"
            )
    for number, lives in enumerate(evidence.logs):
        for log in lives:
            # Rows of groups and resources tell of their children, too.
            counted = Counter(
                (row.authority, row.origin, row.epoch, row.kind, row.action)
                for rows in _by_source(log, evidence, number).values()
                for row in rows
                if row.kind == "version" or row.action != "updated"
            )
            again = [each for each, times in counted.items() if times > 1]
            if again:
                yield Violation(
                    "a change is applied once at each node", f"node {number}: {_listed(again)}"
                )


# A subscriber receives every change of a node, each entity's in order.


def _streams(evidence: Evidence) -> Iterator[Violation]:
    for number, stream in enumerate(evidence.streams):
        if evidence.restoration is not None:
            continue  # What it received is of a past that is no more, here or at a source.
        logged: dict[str, list[int]] = defaultdict(list)
        for row in (row for log in evidence.logs[number] for row in log):
            if row.kind == "version":
                logged[row.xid].append(row.epoch)
        received: dict[str, dict[int, None]] = defaultdict(dict)
        for event in stream:
            received[event.subject].setdefault(event.epoch)
        for subject in {*logged, *received}:
            came, were = [*received[subject]], logged[subject]
            if came != were:
                yield Violation(
                    "a subscriber receives every change in order",
                    f"node {number}, {subject}: received {came}, logged {were}",
                )


# A restored node is noticed, and what its replicas have is not rolled back.


def _restoration(evidence: Evidence) -> Iterator[Violation]:
    restoration = evidence.restoration
    if restoration is None:
        return
    for link, noticed in restoration.noticed.items():
        if not noticed:
            yield Violation("a restored peer is noticed", f"not by the link {link}")
    authority = evidence.authorities[restoration.node]
    own = _newest(restoration.before.get(restoration.node, []), authority)
    for link, reported in restoration.reported.items():
        for origin, row in _newest(restoration.before[link.target], authority).items():
            known, verdict = own.get(origin), reported.get(origin)
            found = f"{link}: {row}; its authority has {known}; reported as {verdict}"
            if known is not None and known.epoch > row.epoch and not _waits(origin, reported):
                yield Violation("every replica equals its authority in the end", found)
            elif known is not None and known.epoch < row.epoch and verdict != "ahead":
                yield Violation("a replica that is ahead is reported", found)


def _waits(origin: str, reported: Mapping[str, str]) -> bool:
    """Whether a copy cannot be applied below an entity that is ahead, and is reported."""
    above = (other for other, verdict in reported.items() if verdict == "ahead")
    return reported.get(origin) == "invalid" and any(origin.startswith(f"{a}/") for a in above)


def _newest(rows: Iterable[DigestRow], authority: str) -> dict[str, DigestRow]:
    return {row.origin: row for row in rows if row.authority == authority and row.xid != "/"}


def _listed(values: Iterable[object]) -> str:
    texts = sorted(map(str, values))
    rest = f" and {len(texts) - _MOST_SHOWN} more" if len(texts) > _MOST_SHOWN else ""
    return "; ".join(texts[:_MOST_SHOWN]) + rest
