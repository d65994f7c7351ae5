"""The command `discover`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from catalog import install_command
from catalog.commands.console import CommandError, Output, cell, err, fail, run, write_output
from catalog.commands.secretsources import SOURCE, secret_from, token_for
from catalog.documents.serialization import to_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.commands.discover.payloads import PayloadSample
    from catalog.commands.discover.proposal import Proposal, TopicSample
    from catalog.subscriptions.sinks.protocols import KafkaCluster

app = typer.Typer()
_KNOWN = "protocol=KAFKA"


@app.command()
def discover(
    cluster: Annotated[
        str,
        typer.Argument(
            metavar="kafka://HOST:PORT",
            help="The Kafka cluster; kafkas:// uses TLS.",
            show_default=False,
        ),
    ],
    registry: Annotated[
        str | None,
        typer.Option(help="The schema registry, as serializers have it.", metavar="URL"),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", help="Only topics like this, as orders.*. Repeatable.", metavar="NAME"
        ),
    ] = None,
    records: Annotated[
        int, typer.Option(min=0, max=1000, help="Sample so many last records of each partition.")
    ] = 20,
    infer: Annotated[
        bool,
        typer.Option(
            "--infer",
            help="Propose a JSON schema, inferred from the sampled payloads, where nothing names "
            "a schema.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            help="Propose only topics that no endpoint of this catalog names, and list its "
            "topics that the cluster lacks or that have no records.",
            metavar="URL",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help="The user at the cluster (SASL/PLAIN) and at the registry.",
            metavar="NAME",
        ),
    ] = None,
    password_from: Annotated[
        str | None, typer.Option(help=f"The password: {SOURCE}.", metavar="SOURCE")
    ] = None,
    output: Output = None,
) -> None:
    """Propose endpoints and messages for the topics of a Kafka cluster.

    Nothing is written to a catalog, to the cluster or to the registry: the command prints a
    document for `concord import`, and lists the evidence of each part on stderr. A CloudEvent in a
    topic gives a message of its type. Other records give a message for each schema by which
    they were written, whatever strategy named its subject. The schemas themselves come by `concord
    link add URL --dialect confluent`.

    Run the command again with --against to see what is new since.

    With --infer, the payloads of messages without a schema are read, too. An inferred schema has
    the names of fields that the samples have, with the types of their values and no values; the
    evidence counts the samples. The schema may not fit other records, so review the schema.

    Example: concord discover kafka://localhost:9092 --registry http://localhost:8081 -o topics.yaml

    Exit codes: 0 proposed; 2 the command could not do its work.
    """
    password = None if password_from is None else secret_from(password_from)
    if (user is None) != (password is None):
        fail("--user and --password-from are given together.")
    proposal, known, samples = run(
        lambda: _discover(
            cluster, registry, topics or ["*"], records, against, user, password, infer=infer
        )
    )
    _explain(proposal)
    if against is not None:
        _explain_known(known, samples)
    text = to_yaml({"specversion": "1.0-rc4", **proposal.groups})
    write_output(text, output)
    if output is not None:
        err.print(f"Look at it, then: concord import {cell(str(output))}")


async def _discover(
    url: str,
    registry: str | None,
    patterns: Sequence[str],
    records: int,
    against: str | None,
    user: str | None,
    password: str | None,
    *,
    infer: bool,
) -> tuple[Proposal, Mapping[str, str], list[TopicSample]]:
    """The proposal, the wanted topics that the catalog knows with their endpoints, the samples."""
    import aiohttp

    from catalog.commands.discover.proposal import Registry, propose
    from catalog.commands.discover.schemaregistry import read_registry

    new_payloads: Callable[[], PayloadSample] | None = None
    try:
        from catalog.commands.discover.kafkatopics import is_wanted, sample_topics

        if infer:
            from catalog.commands.discover import payloads

            new_payloads = payloads.PayloadSample
    except ModuleNotFoundError as error:
        if error.name not in ("aiokafka", "genson"):
            raise
        hint = f"Install it with: {install_command('discover')}"
        raise CommandError(f"The library {error.name} is not installed.", hint) from error
    cluster = _cluster(url, user, password)
    named = {} if against is None else await _known_topics(against)
    known = {topic: xid for topic, xid in named.items() if is_wanted(topic, patterns)}
    samples = [sample async for sample in sample_topics(cluster, patterns, records, new_payloads)]
    new = [sample for sample in samples if sample.topic not in known]
    auth = None if user is None or password is None else aiohttp.BasicAuth(user, password)
    told = Registry() if registry is None else await read_registry(registry, new, auth)
    servers = [f"{host}:{port}" for host, port in cluster.servers]
    return propose(new, told, servers), known, samples


def _cluster(url: str, user: str | None, password: str | None) -> KafkaCluster:
    from catalog.model.credentials import PlainCredential
    from catalog.subscriptions.sinks.protocols import KafkaCluster, servers_of

    parts = urlsplit(url)
    try:
        servers = servers_of(url)
    except ValueError:
        servers = ()
    if parts.scheme not in ("kafka", "kafkas") or not all(host for host, _ in servers):
        raise CommandError(f"{url} is no address of a cluster.", "Write it as kafka://HOST:PORT.")
    credential = None
    if user is not None and password is not None:
        credential = PlainCredential(identifier=user, secret=password)
    return KafkaCluster(servers=servers, tls=parts.scheme == "kafkas", credential=credential)


async def _known_topics(url: str) -> dict[str, str]:
    """The xid of the endpoint by topic, of the endpoints of a catalog that use Kafka."""
    from catalog.client import Client

    known: dict[str, str] = {}
    async with Client.open(url, token=token_for(url)) as client:
        async for _, endpoint in client.items("/endpoints", filters=[_KNOWN]):
            options: Any = endpoint.get("protocoloptions")
            topic = options.get("topic") if isinstance(options, dict) else None
            if isinstance(topic, str):
                known[topic] = endpoint["xid"]
    return known


def _explain(proposal: Proposal) -> None:
    for topic, evidence in proposal.evidence.items():
        err.print(f"[bold]{cell(topic)}[/]: {cell(evidence[0])}")
        for sentence in evidence[1:]:
            err.print(f"  {cell(sentence)}")
    for topic, reason in proposal.left_out.items():
        err.print(f"[yellow]{cell(topic)}[/] is left out: {reason}.")
    if not (proposal.evidence or proposal.left_out):
        err.print("There is no new topic.")


def _explain_known(known: Mapping[str, str], samples: Sequence[TopicSample]) -> None:
    found = {sample.topic: sample for sample in samples}
    for topic, xid in known.items():
        if topic not in found:
            err.print(f"{cell(xid)} names the topic {cell(topic)}, which was not found.")
        elif found[topic].is_empty:
            err.print(f"{cell(xid)} names the topic {cell(topic)}, which has no records.")
