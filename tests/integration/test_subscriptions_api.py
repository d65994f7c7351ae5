"""The Subscriptions API over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from cloudevents.core.v1.event import CloudEvent

from catalog.api.app import create_app
from catalog.context import Context, SharedState
from catalog.dialects import event_dialects
from catalog.model.caller import node_caller
from catalog.model.configuration import Configuration
from catalog.model.modelsource import default_model
from catalog.settings import Settings
from catalog.store.changes import Position
from catalog.store.database import Database
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import SinkRefused, Sinks
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition, get
from tests.integration.conftest import NodeClient

SOURCE = "https://catalog.example"
SINK = "https://sink.example/events"
MINIMAL = {"sink": SINK, "protocol": "HTTP"}
PLAIN = {"credentialtype": "PLAIN", "identifier": "me-s3cret", "secret": "s3cret"}
ACCESS = {
    "credentialtype": "ACCESSTOKEN",
    "accesstoken": "s3cret",
    "accesstokenexpiresutc": "2030-01-01T00:00:00Z",
    "accesstokentype": "bearer",
}
REFRESH = {
    **ACCESS,
    "credentialtype": "REFRESHTOKEN",
    "refreshtoken": "refresh s3cret",
    "refreshtokenendpoint": "https://id.example/token?client=s3cret",
}


@pytest.fixture
async def context(database_url: str) -> AsyncIterator[Context]:
    async with Database.open(database_url, node_caller(), modelsource={}) as database:
        shared = SharedState(
            database=database.shared,
            configuration=Configuration(model=default_model()),
            settings=Settings(
                allow_private_addresses=False, public_url=SOURCE, page_size=3, validate_sinks=False
            ),
            public_base=SOURCE,
            event_dialects=event_dialects,
        )
        yield shared.for_node()


@pytest.fixture
async def client(context: Context) -> AsyncIterator[NodeClient]:
    async with NodeClient.of(create_app(context.shared), context.settings) as client:
        yield client


async def created(client: NodeClient, **changes: Any) -> dict[str, Any]:
    response = await client.post("/subscriptions", json={**MINIMAL, **changes})
    assert response.status == 201, await response.text()
    data: dict[str, Any] = await response.json()
    return data


async def refused(client: NodeClient, **changes: Any) -> str:
    response = await client.post("/subscriptions", json={**MINIMAL, **changes})
    assert response.status == 400, await response.text()
    problem = await response.text()
    assert (await client.get("/subscriptions")).status == 200
    return problem


async def test_a_created_subscription_is_shown_with_its_defaults(client: NodeClient) -> None:
    response = await client.post("/subscriptions", json=MINIMAL)
    assert response.status == 201
    shown = await response.json()
    assert response.headers["Location"] == f"{SOURCE}/subscriptions/{shown['id']}"
    assert shown == {
        "id": shown["id"],
        **MINIMAL,
        "protocolsettings": {
            "method": "POST",
            "headers": {},
            "contentmode": "binary",
            "compression": "none",
            "signature": "none",
        },
        "status": {
            "state": "active",
            "createdat": shown["status"]["createdat"],
            "failures": 0,
            "delivered": 0,
            "failed": 0,
            "failedattempts": 0,
            "lag": 0,
            "lagseconds": 0.0,
            "deadletters": {"dead": 0, "waiting": 0, "due": 0},
        },
    }
    again = await client.get(f"/subscriptions/{shown['id']}")
    assert (again.status, await again.json()) == (200, shown)


async def test_everything_that_was_asked_for_is_shown_again(client: NodeClient) -> None:
    asked: dict[str, Any] = {
        "source": SOURCE,
        "types": ["io.xregistry.group.created"],
        "config": {"interval": 1.5},
        "filters": [{"not": {"prefix": {"subject": "/x"}}}],
        "protocolsettings": {
            "method": "PUT",
            "headers": {"X-Team": "blue"},
            "contentmode": "batched",
            "compression": "gzip",
            "signature": "none",
        },
    }
    shown = await created(client, **asked)
    settings = {**asked.pop("protocolsettings"), "headers": {"X-Team": "***"}}
    assert {name: shown[name] for name in asked} == asked
    assert shown["protocolsettings"] == settings


SECRET_SINK = f"{SINK}?token=s3cret&n=s3cret"
SECRET = {"sink": SECRET_SINK, "protocolsettings": {"headers": {"X-Key": "s3cret"}}}


async def stored(context: Context, id: str) -> tuple[str, dict[str, str]]:
    """The sink and the headers that deliveries use."""
    async with context.database.acquire() as connection:
        found = await get(connection, id)
    assert found is not None
    return found.definition.sink, dict(found.definition.settings["headers"])


async def test_values_that_may_be_secrets_are_masked_wherever_they_are_shown(
    client: NodeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = await created(client, **SECRET)
    assert shown["sink"] == f"{SINK}?token=***&n=***"
    path = f"/subscriptions/{shown['id']}"
    answers = [
        orjson.dumps(shown).decode(),
        await (await client.get(path)).text(),
        await (await client.get("/subscriptions")).text(),
        await (await client.put(path, json={**MINIMAL, **SECRET})).text(),
        await (await client.delete(path)).text(),
    ]
    output = capsys.readouterr()
    assert "s3cret" not in "".join(answers) + output.out + output.err


async def test_masked_values_that_are_written_back_keep_the_stored_ones(
    client: NodeClient, context: Context
) -> None:
    shown = await created(client, **SECRET)
    path = f"/subscriptions/{shown['id']}"
    response = await client.put(path, json={**shown, "types": ["t"]})
    assert (response.status, (await response.json())["sink"]) == (200, shown["sink"])
    assert await stored(context, shown["id"]) == (SECRET_SINK, {"X-Key": "s3cret"})
    changed = {**shown, "sink": f"{SINK}?token=***&n=new"}
    assert (await client.put(path, json=changed)).status == 200
    assert (await stored(context, shown["id"]))[0] == f"{SINK}?token=s3cret&n=new"


@pytest.mark.parametrize(
    "changes",
    [
        {"sink": "https://evil.example/events?token=***&n=***"},
        {"sink": "https://evil.example/events"},
        {"sink": f"{SINK}/other?token=***&n=***"},
        {"sink": "http://sink.example/events?token=***&n=***"},
        {"protocolsettings": {"headers": {"X-Other": "***"}}},
    ],
)
async def test_no_stored_value_is_sent_to_another_sink(
    client: NodeClient, context: Context, changes: dict[str, Any]
) -> None:
    """Who cannot read a secret cannot have it sent to a sink of their own either."""
    shown = await created(client, **SECRET)
    response = await client.put(f"/subscriptions/{shown['id']}", json={**shown, **changes})
    assert response.status == 400
    assert "*** keeps a stored value" in (await response.json())["title"]
    assert await stored(context, shown["id"]) == (SECRET_SINK, {"X-Key": "s3cret"})


@pytest.mark.parametrize(
    "changes",
    [{"sink": f"{SINK}?token=***"}, {"protocolsettings": {"headers": {"X-Key": "***"}}}],
)
async def test_stars_stand_for_nothing_in_a_new_subscription(
    client: NodeClient, changes: dict[str, Any]
) -> None:
    assert "*** keeps a stored value" in await refused(client, **changes)


def subscription_to(sink: str) -> Subscription:
    """A new subscription without any progress."""
    return Subscription(
        id="s",
        revision=1,
        definition=SubscriptionDefinition(sink=sink),
        cursor=Position(0, 0),
        state="active",
        failures=0,
        delivered=0,
        deliveredat=None,
        error=None,
        lostat=None,
        lag=0,
    )


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.9 s3cret\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b""],
)
async def test_why_a_delivery_failed_tells_no_secret_and_nothing_of_the_network(
    answer: bytes,
) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    settings = Settings(allow_private_addresses=True)
    event = OutgoingEvent(CloudEvent({"id": "1", "source": SOURCE, "type": "t"}, {}))
    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as server,
        Sinks(settings) as sinks,
    ):
        port = server.sockets[0].getsockname()[1]
        urls = [f"http://127.0.0.1:{each}/a?token=t0ken" for each in (port, 1)]
        opened = [sinks.open(subscription_to(url)) for url in urls]
        answers = [answer for sink in opened for answer in await sink.send([event])]
    for each in answers:
        assert isinstance(each, SinkRefused)
        assert each.cause
        assert "t0ken" not in each.reason + each.cause
        assert not re.search("SSH|127|[0-9]{2}|Error", each.reason)


async def test_an_id_that_is_proposed_is_ignored(client: NodeClient) -> None:
    assert (await created(client, id="mine"))["id"] != "mine"


async def test_an_empty_list_is_an_array(client: NodeClient) -> None:
    response = await client.get("/subscriptions")
    assert (response.status, await response.json()) == (200, [])


async def test_a_replaced_subscription_is_the_new_one_as_a_whole(client: NodeClient) -> None:
    shown = await created(client, types=["a"], filters=[{"exact": {"type": "a"}}])
    path = f"/subscriptions/{shown['id']}"
    response = await client.put(path, json={**MINIMAL, "sink": "https://other.example/"})
    assert response.status == 200
    replaced = await response.json()
    assert replaced["sink"] == "https://other.example/"
    assert replaced["id"] == shown["id"]
    assert "types" not in replaced
    assert "filters" not in replaced
    assert await (await client.get(path)).json() == replaced


async def test_a_deleted_subscription_is_answered_once_more_and_gone(client: NodeClient) -> None:
    shown = await created(client)
    path = f"/subscriptions/{shown['id']}"
    response = await client.delete(path)
    assert (response.status, await response.json()) == (200, shown)
    assert [(await client.request(method, path)).status for method in ("GET", "DELETE")] == [
        404,
        404,
    ]
    assert (await client.put(path, json=MINIMAL)).status == 404


async def test_options_tell_what_can_be_done(client: NodeClient) -> None:
    response = await client.options("/subscriptions")
    assert (response.status, response.headers["Allow"]) == (200, "GET, HEAD, OPTIONS, POST")
    response = await client.options("/subscriptions/x")
    assert (response.status, response.headers["Allow"]) == (
        200,
        "DELETE, GET, HEAD, OPTIONS, PATCH, PUT",
    )


@pytest.mark.parametrize("credential", [PLAIN, ACCESS, REFRESH])
async def test_secrets_never_come_back(
    client: NodeClient, credential: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = await created(client, sinkcredential=credential)
    path = f"/subscriptions/{shown['id']}"
    answers = [
        orjson.dumps(shown).decode(),
        await (await client.get(path)).text(),
        await (await client.get("/subscriptions")).text(),
        await (await client.put(path, json={**MINIMAL, "sinkcredential": credential})).text(),
        await (await client.delete(path)).text(),
    ]
    assert "s3cret" not in "".join(answers)
    for answer in (answers[0], answers[1], answers[3], answers[4]):
        given = orjson.loads(answer)["sinkcredential"]
        assert given.keys() == credential.keys()
        assert given["credentialtype"] == credential["credentialtype"]
        assert "***" in given.values()
    output = capsys.readouterr()
    assert "s3cret" not in output.out + output.err


@pytest.mark.parametrize(
    "credential",
    [
        {"credentialtype": "PLAIN", "identifier": "s3cret"},
        {"credentialtype": "PLAIN", "identifier": "a:s3cret", "secret": "s3cret"},
        {"credentialtype": "REFRESHTOKEN", "refreshtoken": "s3cret"},
        {**ACCESS, "accesstoken": "s3cret\r\nHost: x"},
        {**ACCESS, "accesstokentype": "s3cret\n"},
        {**ACCESS, "accesstokenexpiresutc": "s3cret"},
        {**ACCESS, "accesstokenexpiresutc": 1_900_000_000},
        {**ACCESS, "accesstokenexpiresutc": "9999-12-31T23:59:59-01:00"},
        {**ACCESS, "credentialtype": "REFRESHTOKEN", "refreshtoken": "s3cret"},
        {**REFRESH, "refreshtoken": "s3cret\n"},
        {**REFRESH, "refreshtokenendpoint": "s3cret"},
        {**REFRESH, "refreshtokenendpoint": "http://id.example/s3cret"},
        {**REFRESH, "refreshtokenendpoint": "https://me:s3cret@id.example/"},
        {**REFRESH, "refreshtokenendpoint": "https://10.0.0.1/s3cret"},
        {**REFRESH, "refreshtokenendpoint": "https://169.254.169.254/s3cret"},
        {**REFRESH, "refreshtokenendpoint": "http://127.0.0.1/s3cret"},
        {"accesstoken": "s3cret"},
        "s3cret",
    ],
)
async def test_a_wrong_credential_is_refused_without_repeating_it(
    client: NodeClient, credential: Any
) -> None:
    problem = await refused(client, sinkcredential=credential)
    assert "sinkcredential" in problem
    assert "s3cret" not in problem


@pytest.mark.parametrize("name", ["accesstoken", "accesstokenexpiresutc", "accesstokentype"])
@pytest.mark.parametrize("credential", [ACCESS, REFRESH])
async def test_what_the_specification_requires_of_tokens_is_required(
    client: NodeClient, credential: dict[str, Any], name: str
) -> None:
    given = {key: value for key, value in credential.items() if key != name}
    assert name in await refused(client, sinkcredential=given)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        (
            {"protocol": "PIGEON", "protocolsettings": {"topicname": "t"}},
            "the protocols of this node are HTTP, HTTPS",
        ),
        ({"protocol": "http"}, "the protocols of this node are HTTP, HTTPS"),
        ({"source": "https://elsewhere.example"}, f"the only sources of events here are {SOURCE}"),
        ({"sink": None}, "sink"),
        ({"sink": "ftp://sink.example"}, "http"),
        ({"sink": "https://me:you@sink.example"}, "credentials"),
        ({"sink": "http://127.0.0.1/"}, "not a public address"),
        ({"sink": "http://[::ffff:10.0.0.1]/"}, "not a public address"),
        ({"filters": [{"xpath": "TRUE"}]}, 'filter dialect \\"xpath\\" is not supported'),
        ({"filters": [{"sql": "type ="}]}, "(line 1, column 7)"),
        ({"filters": [{"sql": "none(1)"}]}, "there is no function NONE"),
        ({"filters": {"exact": {"type": "x"}}}, "filters"),
        ({"types": [""]}, "types"),
        ({"types": "x"}, "types"),
        ({"config": {"sampling": 5}}, "config.sampling"),
        ({"config": {"interval": -1}}, "config.interval"),
        ({"config": {"interval": 1e9}}, "config.interval"),
        ({"config": {"from": "yesterday"}}, "config.from"),
        ({"config": {"from": f"{2**62}.1"}}, "the log has the entries after"),
        ({"config": {"from": "9999-01-01T00:00:00Z"}}, "the log has the entries after"),
        ({"config": {"startsAt": 5}}, "config.startsAt"),
        ({"config": {"startsAt": "0001-01-01T00:00:00+14:00"}}, "config.startsAt"),
        (
            {"config": {"startsAt": "2030-01-02T00:00:00Z", "expiresAt": "2030-01-01T00:00:00Z"}},
            "expiresAt",
        ),
        ({"config": {"maxEvents": 0}}, "config.maxEvents"),
        ({"config": {"maxEvents": True}}, "config.maxEvents"),
        ({"config": {"initialEvents": 1}}, "config.initialEvents"),
        ({"config": {"initialEvents": True, "from": "earliest"}}, "initialEvents"),
        ({"config": {"initialEvents": True, "interval": 1}}, "interval"),
        ({"config": {"batch": {"count": 0}}}, "config.batch.count"),
        ({"config": {"batch": {"bytes": 2**40}}}, "config.batch.bytes"),
        ({"config": {"batch": {"wait": 61}}}, "config.batch.wait"),
        ({"config": {"retry": {"attempts": 0}}}, "config.retry.attempts"),
        ({"config": {"retry": {"seconds": -1}}}, "config.retry.seconds"),
        ({"config": {"order": "stop"}}, "config.order"),
        ({"unknown": 1}, "unknown"),
        ({"protocolsettings": {"method": "GET"}}, "method"),
        ({"protocolsettings": {"contentmode": "streamed"}}, "contentmode"),
        ({"protocolsettings": {"compression": "br"}}, "compression"),
        ({"protocolsettings": {"compression": "gzip"}}, "compression"),
        ({"protocolsettings": {"headers": {"Host": "x"}}}, "Host"),
        ({"protocolsettings": {"headers": {"content-length": "1"}}}, "content-length"),
        ({"protocolsettings": {"headers": {"Transfer-Encoding": "x"}}}, "Transfer-Encoding"),
        ({"protocolsettings": {"headers": {"CE-Type": "x"}}}, "CE-Type"),
        ({"protocolsettings": {"headers": {"Authorization": "x"}}}, "sinkcredential"),
        ({"protocolsettings": {"headers": {"X": "a\r\nHost: b"}}}, "X"),
        ({"protocolsettings": {"headers": {"X Y": "a"}}}, "X Y"),
        ({"protocolsettings": {"headers": {f"x{n}": "a" for n in range(33)}}}, "headers"),
    ],
)
async def test_a_wrong_subscription_is_refused_with_a_hint(
    client: NodeClient, changes: dict[str, Any], hint: str
) -> None:
    assert hint in await refused(client, **changes)
    assert await (await client.get("/subscriptions")).json() == []


@pytest.mark.parametrize("missing", ["sink", "protocol"])
async def test_what_is_required_is_named_when_it_is_missing(
    client: NodeClient, missing: str
) -> None:
    body = {name: value for name, value in MINIMAL.items() if name != missing}
    response = await client.post("/subscriptions", json=body)
    assert response.status == 400
    assert missing in await response.text()


@pytest.mark.parametrize("body", [b"", b"[]", b"3", b"{", b"null"])
async def test_a_body_that_is_no_object_is_refused(client: NodeClient, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post("/subscriptions", data=body, headers=headers)
    assert response.status == 400


async def test_deeply_nested_filters_are_refused_and_not_followed(client: NodeClient) -> None:
    expression: dict[str, Any] = {"exact": {"type": "x"}}
    for _ in range(30):
        expression = {"not": expression}
    assert "nested" in await refused(client, filters=[expression])


async def test_many_can_subscribe_at_once(client: NodeClient) -> None:
    shown = await asyncio.gather(*(created(client) for _ in range(20)))
    assert len({each["id"] for each in shown}) == 20
