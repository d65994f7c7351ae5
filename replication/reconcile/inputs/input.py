"""The interface of the inputs of a comparison, and the addresses that operators give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import pyarrow as pa

from replication.reconcile.digestrows import BucketRange
from replication.reconcile.errors import ReconcileError

if TYPE_CHECKING:
    from replication.reconcile.catalogs import SurveyedCatalog


class _Named(Protocol):
    @property
    def name(self) -> str:
        """The name in the comparison, without white space."""

    @property
    def url(self) -> str:
        """The address, without secrets."""


class Input(_Named, Protocol):
    """A catalog as an operator gives it."""

    def opened(
        self, work: Path, progress: Callable[[str], None]
    ) -> AbstractContextManager[OpenedInput]:
        """The rows of the catalog: of one moment, where the kind of the input can.

        Args:
            work: a directory for files that live as long as the context.

        Raises:
            CatalogUnread
        """


class OpenedInput(_Named, Protocol):
    """The rows of a catalog. Instances can be pickled: Spark's workers read rows."""

    def survey(self) -> SurveyedCatalog:
        """The identity, the links and the fingerprints of the catalog.

        Raises:
            CatalogUnread
        """

    def read(self, buckets: BucketRange, *, verify: bool, is_signed: bool) -> list[pa.RecordBatch]:
        """The rows of a range of buckets, tombstones included, as `digestrows.parse_rows`.

        Args:
            verify: compute the digests anew, if the input has the content of entities.
            is_signed: include the columns of signatures.

        Raises:
            CatalogUnread
        """

    def again(self) -> OpenedInput:
        """The rows as they are now, for a second reading of differences."""


def parse_inputs(catalogs: Iterable[str], tokens: Mapping[str, str]) -> list[Input]:
    """Read each `NAME=ADDRESS`; the scheme of the address decides on the kind of input.

    Args:
        tokens: the bearer tokens of nodes, by the name of the catalog.

    Raises:
        ReconcileError: a text is malformed.
    """
    return [_parse(text, tokens) for text in catalogs]


def _parse(text: str, tokens: Mapping[str, str]) -> Input:
    from replication.reconcile.inputs.capturedinputs import ServerInput, TopicInput
    from replication.reconcile.inputs.databaseinput import DatabaseInput
    from replication.reconcile.inputs.nodeinput import NodeInput
    from replication.reconcile.inputs.snapshotinput import SnapshotInput

    name, _, address = text.partition("=")
    # White space ends a name in the text of `CatalogUnread`, which `error_in` parses.
    if name and len(name.split()) == 1 and address:
        match urlsplit(address).scheme:
            case "http" | "https":
                return NodeInput(name=name, url=address.rstrip("/"), token=tokens.get(name))
            case "postgresql" | "postgres":
                return DatabaseInput(name=name, dsn=address)
            case "" | "file" | "s3" | "gs" | "abfs":
                return SnapshotInput(name=name, directory=address.rstrip("/"), url=address)
            case "xregistry+http" | "xregistry+https":
                url = address.removeprefix("xregistry+").rstrip("/")
                return ServerInput(name=name, url=url, token=tokens.get(name))
            case "kafka" | "kafkas":
                return TopicInput(name=name, url=address)
    raise ReconcileError(
        f"{text!r} does not name a catalog.",
        "Write NAME=ADDRESS: the URL of a node (eu=https://eu.example.com), of its database "
        "(eu=postgresql://reader@db/concord), of a snapshot (eu=s3://backups/eu, or a path), of "
        "another xRegistry server (old=xregistry+https://…), or a topic (eu=kafka://broker/topic).",
    )
