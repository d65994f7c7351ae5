"""Makes a node equal to a desired state, one interaction after the other, and tells how far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.client import BadAnswer, Client, ClientError, Refused
from catalog.commands.apply.desiredstate import DesiredState
from catalog.commands.apply.portions import portions

Json = dict[str, Any]
Params = list[tuple[str, str]]
ACTIONS = ("created", "updated", "deleted")
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The options of an apply; see `concord apply --help`."""

    prune: bool = False
    scopes: tuple[str, ...] = ()
    set: str = ""
    allow_empty: bool = False
    check_epochs: bool = False

    def params(self) -> Params:
        ignored = "readonly" if self.check_epochs else "epoch,readonly"
        return [("ignore", ignored), *([("set", self.set)] if self.set else [])]

    def pruning(self) -> Params:
        """The parameters that make a request prune as well."""
        if not self.prune:
            return []
        empty = [("allowempty", "")] if self.allow_empty else []
        return [("prune", ""), *empty, *(("scope", scope) for scope in self.scopes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """One interaction of an apply."""

    body: Json
    params: Params

    @property
    def holds(self) -> str:
        """A few of its groups, for people to read."""
        xids = [f"/{name}/{id}" for name in self.body if name != "$keep" for id in self.body[name]]
        more = f" and {len(xids) - MOST_NAMED:,} more" if len(xids) > MOST_NAMED else ""
        return ", ".join(xids[:MOST_NAMED]) + more or "deletions"


def requests_for(desired: DesiredState, asked: ApplyOptions, limit: int) -> list[ApplyRequest]:
    """The requests of an apply, in order. Deletions are in the only request, or in a last one.

    Args:
        limit: the most bytes that the node takes.

    Raises:
        PortionTooLarge
    """
    params, pruning = asked.params(), asked.pruning()
    bodies: list[Json] = [*portions(desired.groups, desired.model, limit)]
    if len(bodies) <= 1:
        body = bodies[0] if bodies else {}
        return [ApplyRequest(body=body, params=params + pruning)] if bodies or pruning else []
    found = [ApplyRequest(body=body, params=params) for body in bodies]
    if pruning:
        found.append(ApplyRequest(body={"$keep": [*desired.xids()]}, params=params + pruning))
    return found


@dataclass(slots=True, kw_only=True)
class ApplyResult:
    """The answers to the requests of an apply, in order, until one failed.

    `failure` is why `failed` brought no answer; whether it was carried out is then in doubt,
    unless the node refused it. What comes after it was not sent.
    """

    is_dry: bool
    answers: list[Json] = field(default_factory=list)
    failure: ClientError | None = None
    failed: ApplyRequest | None = None
    not_sent: Sequence[ApplyRequest] = ()

    @property
    def changes(self) -> list[Json]:
        """Of every entity what happens to it first: a group may be in several requests."""
        found: dict[str, Json] = {}
        for answer in self.answers:
            for change in answer["changes"]:
                found.setdefault(change["xid"], change)
        return [found[xid] for xid in sorted(found, key=lambda xid: xid.split("/"))]

    @property
    def deletions(self) -> list[Json]:
        return [change for change in self.changes if change["action"] == "deleted"]

    @property
    def is_refused(self) -> bool:
        """Whether the node said no, and why."""
        return isinstance(self.failure, Refused) and self.failure.problem.status < 500

    def listed(self, name: str) -> list[str]:
        """The xids that the answers list under this name, each once."""
        return sorted({xid for answer in self.answers for xid in answer[name]})

    @property
    def notes(self) -> list[Json]:
        """Rules of the domains that what is written breaks; they refuse nothing."""
        return [note for answer in self.answers for note in answer.get("notes", [])]

    def as_json(self) -> Json:
        changes = self.changes
        actions = [change["action"] for change in changes]
        told: Json = {
            "dryrun": self.is_dry,
            **{action: actions.count(action) for action in ACTIONS},
            "changes": changes,
            "leftalone": self.listed("leftalone"),
            "kept": self.listed("kept"),
            "notes": self.notes,
            "interactions": [each["interaction"] for each in self.answers if "interaction" in each],
        }
        if self.failure is not None:
            told["error"] = self.failure.message
            told["violations"] = _violations(self.failure)
            told["indoubt"] = self.is_in_doubt
            told["notsent"] = len(self.not_sent)
        return told

    @property
    def is_in_doubt(self) -> bool:
        """Whether a request may have been carried out although it brought no answer."""
        return not self.is_dry and self.failure is not None and not self.is_refused


def _violations(failure: ClientError) -> list[Json]:
    found = failure.problem.violations if isinstance(failure, Refused) else ()
    return [
        {"subject": v.subject, "type": v.type, "title": v.title, "detail": v.detail} for v in found
    ]


async def send_all(
    client: Client,
    requests: Sequence[ApplyRequest],
    *,
    dry_run: bool,
    tell: Callable[[int, ApplyRequest], None] = lambda *_: None,
) -> ApplyResult:
    """Send the requests until one fails.

    Args:
        dry_run: have the node decide and check everything, and write nothing.
        tell: is called before each, with its place.
    """
    done = ApplyResult(is_dry=dry_run)
    for place, request in enumerate(requests):
        tell(place, request)
        params = request.params + ([("dryrun", "")] if dry_run else [])
        try:
            answer = await client.post("/apply", request.body, params)
            if not isinstance(answer, dict) or "changes" not in answer:
                raise BadAnswer(client.url, "something else than what was applied")
        except ClientError as failure:
            done.failure, done.failed = failure, request
            done.not_sent = requests[place + 1 :]
            return done
        done.answers.append(answer)
    return done


async def desired_by(client: Client, documents: Iterable[tuple[str, Json]]) -> DesiredState:
    """The desired state of all documents together, in the terms of the node's model.

    Args:
        documents: the name of each file, and its groups.
    """
    desired = DesiredState(model=await client.get("/model"))
    for file, groups in documents:
        desired.add(file, groups)
    return desired
