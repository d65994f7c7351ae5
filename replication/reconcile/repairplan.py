"""The plan of a repair: the fetches that catalogs are asked for, in order, as data.

An action asks a catalog to fetch one origin again from the sources of its links. A fetch decides by
authority and epoch what it applies, so an action that comes too late, or twice, changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model.entity import Origin
from catalog.operations.reconciliations import FindingName
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Findings
from replication.reconcile.topology import Topology

PLAN_FILE = "plan.parquet"
JOURNAL_FILE = "repaired.txt"
"""The file with the ids of the actions that are done."""
_COLUMNS = pa.schema(
    {
        "id": pa.string(),
        "catalog": pa.string(),
        "url": pa.string(),
        "authority": pa.string(),
        "origin": pa.string(),
        "finding": pa.string(),
        "epoch": pa.int64(),
    }
)
_ACTIONS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
    """A fetch of one origin.

    Args:
        id: the same for the same finding in every run.
        catalog, url: the catalog that fetches.
        finding: why it fetches.
        epoch: the epoch of the reference.
    """

    id: str
    catalog: str
    url: str
    authority: str
    origin: str
    finding: FindingName
    epoch: int | None

    @property
    def key(self) -> Origin:
        return Origin(self.authority, self.origin)


def planned(
    findings: Findings,
    topology: Topology,
    catalogs: Sequence[SurveyedCatalog],
    shrunk: Collection[str],
    progress: Callable[[str], None],
) -> Iterator[RepairAction]:
    """The actions in order.

    Catalogs nearer to an authority go first, because a catalog can fetch only entities of its
    source. Parents go before their children, because a child needs its parent in the catalog.

    Args:
        shrunk: the names of catalogs that may have lost entities. Repairs do not fetch from a
            shrunk catalog, so a catalog with a link from a shrunk catalog is not repaired.
    """
    for position, authorities in in_order(findings, topology):
        catalog, sources = catalogs[position], topology.sources[position]
        if catalog.node is None:
            progress(f"{catalog.name} is not repaired, as it was not read from a running node")
            continue
        if doubtful := sorted({*shrunk} & {*sources}):
            names = " and ".join(doubtful)
            progress(f"{catalog.name} is not repaired, as it fetches from {names}")
            continue
        for wanted in findings.repairs(catalog.name, authorities, sources):
            named = (catalog.authority, *wanted.origin, wanted.finding, wanted.epoch)
            yield RepairAction(
                id=hashlib.sha256("\n".join(map(str, named)).encode()).hexdigest()[:32],
                catalog=catalog.name,
                url=catalog.input.url,
                authority=wanted.origin.authority,
                origin=wanted.origin.xid,
                finding=wanted.finding,
                epoch=wanted.epoch,
            )


def in_order(findings: Findings, topology: Topology) -> Iterator[tuple[int, set[str]]]:
    """Pairs of a catalog's position and the authorities to fetch, in the order of the repair.

    The catalog's own authority is left out, because a catalog cannot fetch its own entities.
    """
    authorities = findings.authorities()
    # Hops from 1 leave out the catalog's own authority, and an authority without a path has the
    # greatest number of hops, so its origins come last.
    for hops in range(1, len(topology.names) + 1):
        for position, name in enumerate(topology.names):
            found = authorities.get(name, {})
            if at_hops := {one for one in found if topology.hops(position, one) == hops}:
                yield position, at_hops


def write_plan(path: Path, actions: Iterable[RepairAction]) -> int:
    """Write actions to a Parquet file; return the number of actions."""
    rest, count = iter(actions), 0
    with pq.ParquetWriter(path, _COLUMNS, compression="zstd") as writer:
        while part := [asdict(each) for each in islice(rest, _ACTIONS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(part, _COLUMNS))
            count += len(part)
    return count


def read_plan(path: Path) -> Iterator[RepairAction]:
    """Read the actions of a Parquet file, in order.

    Raises:
        ReconcileError: the file is missing, or is no plan.
    """
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=_COLUMNS.names):
                for row in batch.to_pylist():
                    yield RepairAction(**row)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise ReconcileError(
            f"{path} cannot be read: {reason}.",
            "Name the directory of `concord reconcile --report`.",
        ) from error
