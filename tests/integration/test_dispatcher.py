"""Deliveries from a real log to a real HTTP sink on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.context import Context, SharedState
from catalog.model.caller import Author, node_caller
from catalog.model.change import Change
from catalog.model.configuration import Configuration
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.model.entity import Entity
from catalog.model.modelsource import default_model
from catalog.operations.subscriptions import RetryLimits, SubscriptionConfig
from catalog.settings import Settings
from catalog.store.changes import Position, read_head
from catalog.store.database import Database
from catalog.store.writes import Write, write
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.delivery.eventdialects import ChangeLogReader, native_dialect
from catalog.subscriptions.delivery.filters import Required
from catalog.subscriptions.delivery.logtail import LogEntry, Tail, Waiter
from catalog.subscriptions.sinks.httpsink import encode_binary, encode_structured
from catalog.subscriptions.stored.sinkcredentials import remove_credential, save_credential
from catalog.subscriptions.stored.subscriptions import (
    Subscription,
    SubscriptionDefinition,
    create,
    delete,
    get,
    replace,
)
from catalog.supervisor import LoopTiming

SOURCE = "http://catalog.example"
LOG = ChangeLogReader(native_dialect(), SOURCE)
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
Answer = Callable[[CloudEvent], Awaitable[web.Response]]


class Sink:
    """An HTTP sink that keeps what it accepted; `answer` can be replaced."""

    def __init__(self) -> None:
        self.events: list[CloudEvent] = []
        self.requests: list[web.BaseRequest] = []
        self.answer: Answer = self._accept
        self.grown = asyncio.Condition()
        self._server = TestServer(self._app())

    async def __aenter__(self) -> Sink:
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("/"))

    @property
    def subjects(self) -> list[str | None]:
        return [event.get_subject() for event in self.events]

    async def received(self, count: int) -> list[CloudEvent]:
        """Wait until so many events were accepted."""
        async with asyncio.timeout(15), self.grown:
            await self.grown.wait_for(lambda: len(self.events) >= count)
        return self.events

    async def asked(self, count: int) -> None:
        """Wait until there were so many requests, accepted or not."""
        async with asyncio.timeout(15), self.grown:
            await self.grown.wait_for(lambda: len(self.requests) >= count)

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        message = HTTPMessage(headers=headers, body=await request.read())
        event = from_http(message, JSONFormat(), CloudEvent)
        assert isinstance(event, CloudEvent)
        self.requests.append(request)
        async with self.grown:
            self.grown.notify_all()
        response = await self.answer(event)
        if response.status < 300:
            self.events.append(event)
        async with self.grown:
            self.grown.notify_all()
        return response

    async def _accept(self, _: CloudEvent) -> web.Response:
        return web.Response(status=204)


def refusing(times: int, status: int, headers: dict[str, str] | None = None) -> Answer:
    left = times

    async def answer(_: CloudEvent) -> web.Response:
        nonlocal left
        left -= 1
        return web.Response(status=status if left >= 0 else 204, headers=headers)

    return answer


class VirtualTime:
    """A clock that sleeping moves on; next to no real time passes."""

    def __init__(self) -> None:
        self.time = AT
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += timedelta(seconds=seconds)
        await asyncio.sleep(0.002)  # others have their turn

    @property
    def timing(self) -> LoopTiming:
        return LoopTiming(now=self.now, sleep=self.sleep)


@pytest.fixture
async def context(database_url: str) -> AsyncIterator[Context]:
    async with opened(database_url) as context:
        yield context


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as sink:
        yield sink


@contextlib.asynccontextmanager
async def opened(database_url: str) -> AsyncIterator[Context]:
    async with Database.open(database_url, node_caller(), modelsource={}) as database:
        shared = SharedState(
            database=database.shared,
            configuration=Configuration(model=default_model()),
            settings=Settings(allow_private_addresses=True),
            public_base=SOURCE,
        )
        yield shared.for_node()


@contextlib.asynccontextmanager
async def delivering(context: Context, timing: LoopTiming | None = None) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_deliveries(context, timing=timing))
        yield
        task.cancel()


async def subscribe(
    context: Context, sink: str, credential: SinkCredential | None = None, **definition: Any
) -> Subscription:
    async with context.database.transaction() as connection:
        id = str(uuid.uuid4())
        subscription = await create(connection, id, SubscriptionDefinition(sink=sink, **definition))
        if credential is not None:
            await save_credential(connection, context.keys, id, credential)
        return subscription


async def log(context: Context, *ids: str, deprecation: tuple[str, ...] | None = None) -> None:
    """Write one group per id, each in an interaction of its own."""
    for id in ids:
        entity = group_of(context, id)
        change = Change(
            xid=entity.xid,
            kind="group",
            action="created",
            authority=entity.authority,
            origin=entity.origin,
            epoch=1,
            digest=entity.digest,
            deprecation=deprecation,
        )
        async with context.database.transaction() as connection:
            written = Write(
                author=Author(kind="node"),
                interaction=str(uuid.uuid4()),
                at=AT,
                entities=[entity],
                changes=[change],
            )
            position = await write(connection, written)
        context.database.signal.set()
    if ids:
        await readable(context, position)


async def readable(context: Context, position: Position) -> None:
    """Other tests' open transactions, in other databases of the server, hold back the log."""
    async with asyncio.timeout(20), context.database.acquire() as connection:
        while (await read_head(connection)).now < position:
            await asyncio.sleep(0.01)  # between two looks at the log


def group_of(context: Context, id: str) -> Entity:
    xid = f"/gs/{id}"
    return Entity(
        xid=xid,
        kind="group",
        authority=context.database.node.authority,
        origin=xid,
        epoch=1,
        attributes={},
        createdat=AT,
        modifiedat=AT,
    ).sealed()


def xids(*ids: str) -> list[str]:
    return [f"/gs/{id}" for id in ids]


async def read(context: Context, subscription: Subscription) -> Subscription:
    async with context.database.acquire() as connection:
        found = await get(connection, subscription.id)
    assert found is not None
    return found


async def eventually(
    context: Context, subscription: Subscription, holds: Callable[[Subscription], bool]
) -> Subscription:
    async with asyncio.timeout(15):
        while not holds(found := await read(context, subscription)):
            await asyncio.sleep(0.01)  # between two looks
    return found


async def test_changes_arrive_in_the_order_of_the_log(context: Context, sink: Sink) -> None:
    ids = [f"g{number:03}" for number in range(50)]
    async with delivering(context):
        await subscribe(context, sink.url)
        await log(context, *ids)
        await sink.received(50)
    assert sink.subjects == xids(*ids)
    sequences = [event.get_extension("sequence") for event in sink.events]
    assert sequences == sorted(set(sequences))
    assert {event.get_source() for event in sink.events} == {SOURCE}


async def test_a_subscription_begins_with_what_is_logged_after_it(
    context: Context, sink: Sink
) -> None:
    await log(context, "before")
    await subscribe(context, sink.url)
    await log(context, "after")
    async with delivering(context):
        await sink.received(1)
    assert sink.subjects == xids("after")


async def test_a_subscriber_far_behind_catches_up_in_order(context: Context, sink: Sink) -> None:
    subscription = await subscribe(context, sink.url)
    ids = [f"g{number:03}" for number in range(250)]
    await log(context, *ids)
    assert (await read(context, subscription)).lag == 250
    async with delivering(context):
        await sink.received(250)
        await log(context, "live")
        await sink.received(251)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.subjects == xids(*ids, "live")


async def test_only_matching_events_are_sent(context: Context, sink: Sink) -> None:
    subscription = await subscribe(
        context,
        sink.url,
        types=("io.xregistry.group.created",),
        filters=({"not": {"exact": {"subject": "/gs/b"}}}, {"prefix": {"subject": "/gs/"}}),
    )
    async with delivering(context):
        await log(context, "a", "b", "c", deprecation=("x",))
        await sink.received(2)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.subjects == xids("a", "c")


async def test_a_cursor_moves_on_although_nothing_matches(context: Context, sink: Sink) -> None:
    subscription = await subscribe(context, sink.url, types=("nothing",))
    async with delivering(context):
        await log(context, "a", "b")
        done = await eventually(context, subscription, lambda s: s.lag == 0)
    assert (done.delivered, done.deliveredat, sink.requests) == (0, None, [])


@pytest.mark.parametrize(
    ("contentmode", "content_type"),
    [("binary", "application/json"), ("structured", "application/cloudevents+json")],
)
async def test_the_content_mode_headers_and_credential_are_as_asked(
    context: Context, sink: Sink, contentmode: Any, content_type: str
) -> None:
    await subscribe(
        context,
        sink.url,
        TokenCredential(token="s3cret"),
        settings={"contentmode": contentmode, "method": "PUT", "headers": {"X-Team": "blue"}},
    )
    async with delivering(context):
        await log(context, "a")
        await sink.received(1)
    [request] = sink.requests
    assert request.method == "PUT"
    assert request.headers["X-Team"] == "blue"
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert request.content_type == content_type


async def test_both_events_of_a_change_are_sent_and_repeated_only_from_the_failed_one(
    context: Context, sink: Sink
) -> None:
    async def refuse_first_deprecation(event: CloudEvent) -> web.Response:
        is_first = len(sink.requests) == 2
        return web.Response(status=500 if is_first else 204)

    sink.answer = refuse_first_deprecation
    subscription = await subscribe(context, sink.url)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a", deprecation=("effective",))
        await sink.received(2)
        await eventually(context, subscription, lambda s: s.delivered == 2 and s.failures == 0)
    assert [event.get_type().rpartition(".")[2] for event in sink.events] == [
        "created",
        "deprecation",
    ]
    assert len(sink.requests) == 3


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500, 503])
async def test_a_refused_event_is_sent_again_until_it_is_taken(
    context: Context, sink: Sink, status: int
) -> None:
    sink.answer = refusing(3, status, {"Location": "/"})
    subscription = await subscribe(context, sink.url)
    virtual = VirtualTime()
    async with delivering(context, virtual.timing):
        await log(context, "a", "b")
        await sink.received(2)
        done = await eventually(context, subscription, lambda s: s.delivered == 2)
    assert sink.subjects == xids("a", "b")
    assert len(sink.requests) == 5
    assert (done.failures, done.error, done.state) == (0, None, "active")


async def test_a_failure_is_shown_while_it_lasts(context: Context, sink: Sink) -> None:
    sink.answer = refusing(10**6, 503)
    subscription = await subscribe(context, sink.url)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a")
        failing = await eventually(context, subscription, lambda s: s.failures >= 3)
    assert failing.error == "the sink answered 503"
    assert (failing.state, failing.delivered, failing.lag) == ("active", 0, 1)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_honoured(context: Context, sink: Sink, form: str) -> None:
    virtual = VirtualTime()

    async def answer(_: CloudEvent) -> web.Response:
        later = format_datetime(virtual.now() + timedelta(seconds=120), usegmt=True)
        headers = {"Retry-After": "120" if form == "seconds" else later}
        return web.Response(status=204 if len(sink.requests) > 1 else 429, headers=headers)

    sink.answer = answer
    await subscribe(context, sink.url)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        await sink.received(1)
    assert 118 < max(virtual.slept) <= 120


async def test_an_absurd_retry_after_is_capped(context: Context, sink: Sink) -> None:
    virtual = VirtualTime()
    sink.answer = refusing(1, 503, {"Retry-After": "99999999999999"})
    await subscribe(context, sink.url)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        await sink.received(1)
    assert max(virtual.slept) == 3600


async def test_gone_ends_a_subscription_until_it_is_replaced(context: Context, sink: Sink) -> None:
    sink.answer = refusing(1, 410)
    subscription = await subscribe(context, sink.url)
    async with delivering(context):
        await log(context, "a", "b")
        ended = await eventually(context, subscription, lambda s: s.state == "ended")
        assert ended.error == "the sink answered 410"
        await log(context, "c")
        assert len(sink.requests) == 1
        async with context.database.transaction() as connection:
            await replace(connection, subscription.id, subscription.definition)
        await sink.received(3)
    assert sink.subjects == xids("a", "b", "c")


async def test_a_restart_goes_on_from_the_durable_cursor(database_url: str, sink: Sink) -> None:
    async with opened(database_url) as context:
        subscription = await subscribe(context, sink.url)
    for ids in (("a", "b"), ("c",), ("d", "e")):
        async with opened(database_url) as context, delivering(context):
            await log(context, *ids)
            await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.subjects == xids("a", "b", "c", "d", "e")


async def test_what_was_logged_while_nobody_delivered_is_not_lost(
    context: Context, sink: Sink
) -> None:
    subscription = await subscribe(context, sink.url)
    async with delivering(context):
        await log(context, "a")
        await sink.received(1)
        await eventually(context, subscription, lambda s: s.delivered == 1)
    await log(context, "b", "c")
    async with delivering(context):
        await sink.received(3)
    assert sink.subjects == xids("a", "b", "c")


async def test_a_sink_that_hangs_holds_back_nobody_else(context: Context, sink: Sink) -> None:
    released = asyncio.Event()

    async def hang(_: CloudEvent) -> web.Response:
        await released.wait()
        return web.Response(status=204)

    ids = [f"g{number}" for number in range(100)]
    async with Sink() as slow, delivering(context):
        slow.answer = hang
        await subscribe(context, slow.url)
        await subscribe(context, sink.url)
        await log(context, *ids)
        await sink.received(100)
        assert (len(slow.requests), len(slow.events)) == (1, 0)
        released.set()
        await slow.received(100)
        assert slow.subjects == sink.subjects == xids(*ids)


async def test_with_an_interval_the_latest_event_stands_for_those_that_came_meanwhile(
    context: Context, sink: Sink
) -> None:
    """Each pause begins when the sink has taken an event, and nothing is sent in it."""
    pauses: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        if seconds == 7:
            pauses.put_nowait(paused := asyncio.Event())
            await paused.wait()
        else:
            await asyncio.sleep(seconds)

    async with Sink() as witness, delivering(context, LoopTiming(sleep=sleep)):
        filters = ({"not": {"exact": {"subject": "/gs/unwanted"}}},)
        subscription = await subscribe(
            context, sink.url, config=SubscriptionConfig(interval=7), filters=filters
        )
        await subscribe(context, witness.url)
        await log(context, "a")
        await sink.received(1)
        async with asyncio.timeout(15):
            first = await pauses.get()
        ids = [f"g{number:03}" for number in range(120)]
        await log(context, *ids, "unwanted")
        await witness.received(122)
        assert sink.subjects == xids("a")
        first.set()
        await sink.received(2)
        async with asyncio.timeout(15):
            second = await pauses.get()
        second.set()
        done = await eventually(context, subscription, lambda s: s.lag == 0 and s.delivered == 2)
    assert sink.subjects == xids("a", ids[-1])
    assert (done.state, done.failures, pauses.qsize()) == ("active", 0, 0)


async def test_with_an_interval_a_refused_event_gives_way_to_a_later_one(
    context: Context, sink: Sink
) -> None:
    released = asyncio.Event()

    async def refuse_once(_: CloudEvent) -> web.Response:
        if len(sink.requests) > 1:
            return web.Response(status=204)
        await released.wait()
        return web.Response(status=503)

    sink.answer = refuse_once
    async with Sink() as witness, delivering(context, VirtualTime().timing):
        subscription = await subscribe(context, sink.url, config=SubscriptionConfig(interval=1))
        await subscribe(context, witness.url)
        await log(context, "a")
        await sink.asked(1)
        await log(context, "b", "c")
        await witness.received(3)
        released.set()
        await sink.received(1)
        await eventually(context, subscription, lambda s: s.lag == 0 and s.failures == 0)
    assert sink.subjects == xids("c")


async def test_gone_ends_a_subscription_with_an_interval_where_it_was(
    context: Context, sink: Sink
) -> None:
    sink.answer = refusing(1, 410)
    subscription = await subscribe(context, sink.url, config=SubscriptionConfig(interval=1))
    async with delivering(context):
        await log(context, "a")
        ended = await eventually(context, subscription, lambda s: s.state == "ended")
    assert (ended.delivered, ended.cursor) == (0, subscription.cursor)


async def test_hundreds_of_sinks_that_hang_hold_back_nobody_else(
    context: Context, sink: Sink
) -> None:
    released = asyncio.Event()

    async def hang(_: CloudEvent) -> web.Response:
        await released.wait()
        return web.Response(status=204)

    async with Sink() as slow, delivering(context):
        slow.answer = hang
        for _ in range(200):
            await subscribe(context, slow.url)
        await subscribe(context, sink.url)
        await log(context, "a", "b")
        await sink.received(2)
        await slow.asked(1)
        # Of the connections to one host, half are for sinks that have accepted events.
        assert len(slow.requests) <= 16
        assert slow.events == []
        released.set()
        await slow.received(400)
    assert sink.subjects == xids("a", "b")


def waiter(
    concerns: Callable[[Sequence[LogEntry]], bool],
    required: Required | None = None,
    passed: Callable[[Position], None] = lambda _: None,
) -> Waiter:
    return Waiter(required=required, concerns=concerns, passed=passed)


async def test_others_have_their_turns_while_many_subscribers_are_told_of_a_change(
    context: Context,
) -> None:
    async with context.database.acquire() as connection:
        head = await read_head(connection)
    tail = Tail(context.database, log=LOG, start=head.now, size=100)
    told: list[int] = []
    turns: set[int] = set()

    async def wait(number: int) -> None:
        await tail.growth(head.now, waiter(lambda _: number % 2 == 0))
        told.append(number)

    async def take_turns() -> None:
        while True:
            turns.add(len(told))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(wait(number)) for number in range(1000)]
        await asyncio.sleep(0)
        other = group.create_task(take_turns())
        await log(context, "a")
        assert await tail.read_once() == 1
        await asyncio.wait(waiting[::2])
        for task in (other, *waiting):
            task.cancel()
    assert sorted(told) == list(range(0, 1000, 2))
    assert len(turns) > 20


async def test_only_those_are_asked_whose_filters_a_change_may_match(context: Context) -> None:
    """The others learn later how far they may move on, all but those that were woken."""
    async with context.database.acquire() as connection:
        head = await read_head(connection)
    tail = Tail(context.database, log=LOG, start=head.now, size=100)
    asked: list[int] = []
    passed: dict[int, Position] = {}

    def concerns(number: int, _: Sequence[LogEntry]) -> bool:
        asked.append(number)
        return number == 3

    async with asyncio.TaskGroup() as group:
        waiting = [
            group.create_task(
                tail.growth(
                    head.now,
                    waiter(
                        partial(concerns, number),
                        Required("subject", frozenset({f"/gs/{number // 10}."}), is_prefix=True),
                        partial(passed.__setitem__, number),
                    ),
                )
            )
            for number in range(1000)
        ]
        await asyncio.sleep(0)
        await log(context, "0.m")
        assert await tail.read_once() == 1
        await waiting[3]
        assert sorted(asked) == [*range(10)]
        [entry] = await tail.after(head.now, 10)
        await tail.pass_once()
        assert {each for each in passed if passed[each] == entry.position} == {*range(1000)} - {3}
        for task in waiting:
            task.cancel()


async def test_a_change_between_reading_and_waiting_wakes_a_subscriber(context: Context) -> None:
    async with context.database.acquire() as connection:
        head = await read_head(connection)
    tail = Tail(context.database, log=LOG, start=head.now, size=100)
    assert await tail.after(head.now, 10) == []
    await log(context, "a")
    assert await tail.read_once() == 1
    async with asyncio.timeout(10):
        await tail.growth(head.now, waiter(lambda _: True))


async def test_an_event_is_written_once_for_all_who_want_it_in_one_form(context: Context) -> None:
    async with context.database.acquire() as connection:
        head = await read_head(connection)
    tail = Tail(context.database, log=LOG, start=head.now, size=100)
    await log(context, "a")
    assert await tail.read_once() == 1
    [[entry], [again]] = [await tail.after(head.now, 10) for _ in range(2)]
    for encode in (encode_binary, encode_structured):
        assert entry.events[0].encoded(encode) is again.events[0].encoded(encode)
    assert (
        encode_binary(entry.events[0].event).body != encode_structured(entry.events[0].event).body
    )


async def test_subscriptions_take_effect_and_end_at_once(context: Context, sink: Sink) -> None:
    async with delivering(context), Sink() as other:
        subscription = await subscribe(context, sink.url)
        await log(context, "a")
        await sink.received(1)
        async with context.database.transaction() as connection:
            await replace(connection, subscription.id, SubscriptionDefinition(sink=other.url))
        # What is under way when the definition changes may still go to the former sink.
        async with asyncio.timeout(15):
            while not other.events:
                await log(context, uuid.uuid4().hex)
                await asyncio.sleep(0.01)  # between two events
        before = len(sink.events)
        await log(context, "b")
        async with asyncio.timeout(15), other.grown:
            await other.grown.wait_for(lambda: "/gs/b" in other.subjects)
        last = await subscribe(context, sink.url)
        async with context.database.transaction() as connection:
            await delete(connection, subscription.id)
        await log(context, "c")
        await sink.received(before + 1)
        await eventually(context, last, lambda s: s.delivered == 1)
    assert sink.subjects[before:] == ["/gs/c"]
    assert "/gs/b" in other.subjects


async def test_of_two_processes_one_delivers_and_the_other_takes_over(
    database_url: str, context: Context, sink: Sink
) -> None:
    subscription = await subscribe(context, sink.url)
    async with opened(database_url) as second:
        async with delivering(context):
            await log(context, "a")
            await sink.received(1)
            other = asyncio.create_task(run_deliveries(second, timing=VirtualTime().timing))
            await log(second, "b")
            await log(context, "c")
            await eventually(context, subscription, lambda s: s.delivered == 3)
        await log(second, "d")
        await sink.received(4)
        other.cancel()
        await asyncio.wait([other])
    assert sink.subjects == xids("a", "b", "c", "d")


async def test_a_lost_database_connection_is_survived(
    database_url: str, context: Context, sink: Sink
) -> None:
    await subscribe(context, sink.url)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a")
        await sink.received(1)
        async with opened(database_url) as other:
            async with other.database.acquire() as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            await log(other, "b")
        async with asyncio.timeout(15), sink.grown:
            await sink.grown.wait_for(lambda: "/gs/b" in sink.subjects)
    assert sink.subjects[0] == "/gs/a"


async def test_one_broken_subscription_shows_its_fault_and_spares_the_others(
    context: Context, sink: Sink
) -> None:
    broken = await subscribe(context, sink.url, filters=({"xpath": "TRUE"},))
    await subscribe(context, sink.url)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a", "b")
        shown = await eventually(context, broken, lambda s: s.failures >= 2)
        await sink.received(2)
    assert shown.error == "internal error: FilterError"
    assert sink.subjects == xids("a", "b")


async def test_an_expired_access_token_is_not_sent(context: Context, sink: Sink) -> None:
    virtual = VirtualTime()
    credential = TokenCredential(token="old", expiresat=AT - timedelta(seconds=1))
    subscription = await subscribe(context, sink.url, credential)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        shown = await eventually(context, subscription, lambda s: s.failures > 0)
    assert shown.error == "the access token of the sink credential has expired"
    assert sink.requests == []


async def test_events_that_wait_for_a_credential_become_no_dead_letters(
    context: Context, sink: Sink
) -> None:
    virtual = VirtualTime()
    credential = TokenCredential(token="old", expiresat=AT - timedelta(seconds=1))
    config = SubscriptionConfig(retry=RetryLimits(attempts=1, seconds=1))
    subscription = await subscribe(context, sink.url, credential, config=config)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        shown = await eventually(context, subscription, lambda s: s.failures > 3)
        assert (shown.failed, shown.failedattempts, shown.tried) == (0, 0, 0)
        async with context.database.transaction() as connection:
            await replace(connection, subscription.id, subscription.definition)
            await remove_credential(connection, subscription.id)
        await sink.received(1)


async def test_a_cursor_beyond_the_end_of_the_log_is_pulled_back(
    context: Context, sink: Sink
) -> None:
    await subscribe(context, sink.url)
    async with context.database.acquire() as connection:
        await connection.execute("UPDATE subscriptions SET txid = 1000000000")
    async with delivering(context):
        async with asyncio.timeout(10):
            while not sink.events:
                await log(context, uuid.uuid4().hex)
                await asyncio.sleep(0.05)  # between two events
    assert sink.events


def test_a_credential_is_not_shown_by_its_repr() -> None:
    assert "s3cret" not in repr(TokenCredential(token="s3cret"))
    assert "s3cret" not in repr(PlainCredential(identifier="me", secret="s3cret"))
