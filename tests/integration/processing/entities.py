"""The rules that hold for every entity: its epoch, its times, and what it was before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Steps = tuple[str, ...]

MUTABLE = ("name", "description", "labels")
SHOWN = ("epoch", "createdat", "modifiedat", "ancestorid", *MUTABLE)


class Refused(Exception):
    """The request has an error of this name, and changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of resources, with the aspects of its model that decide what writes do."""

    plural: str
    singular: str
    mode: str = "manual"
    limit: int = 0
    one_root: bool = False
    sets_ids: bool = True

    @property
    def id(self) -> str:
        return f"{self.singular}id"

    @property
    def model(self) -> Json:
        """What a model says about it. Its meta has the attributes of its versions, too."""
        more = {"singleversionroot": True} if self.one_root else {}
        return more | {
            "singular": self.singular,
            "hasdocument": False,
            "versionmode": self.mode,
            "maxversions": self.limit,
            "setversionid": self.sets_ids,
            "metaattributes": {name: {"type": "string"} for name in ("name", "description")},
        }


class Ledger:
    """What a request does to any entity, which is a map of its attributes.

    Beside these it has `at`, the time of the last request that touched it, and `was`, the epoch
    and `modifiedat` that it had before that request.
    """

    def __init__(self) -> None:
        self.now = ""
        self.graves: dict[Steps, int] = {}

    def new(self, place: Steps) -> Json:
        """Created again, it goes on above the epoch of its grave."""
        epoch = self.graves.get(place, 0) + 1
        times = {"createdat": self.now, "modifiedat": self.now}
        return {"epoch": epoch, **times, "at": self.now, "was": (0, None)}

    def touch(self, entity: Json, *, timed: bool = True) -> None:
        """Count it as updated, once in a request."""
        if entity["at"] == self.now:
            return
        entity |= {"at": self.now, "was": (entity["epoch"], entity["modifiedat"])}
        entity["epoch"] += 1
        if timed:
            entity["modifiedat"] = self.now

    def write(self, entity: Json, body: Json, *, patch: bool) -> None:
        self.check_epoch(entity, body.get("epoch"))
        self.touch(entity)
        for name in MUTABLE:
            if name in body or not patch:
                entity.pop(name, None)
            if body.get(name) is not None:
                entity[name] = body[name]
        if "createdat" in body:
            entity["createdat"] = body["createdat"] or self.now
        modified = body.get("modifiedat")
        _, before = entity["was"]
        entity["modifiedat"] = self.now if modified in (None, before) else modified

    def epoch_before(self, entity: Json) -> int:
        """The epoch that it had before this request; 0 of what is new."""
        return int(entity["was"][0] if entity["at"] == self.now else entity["epoch"])

    def check_epoch(self, entity: Json, epoch: int | None) -> None:
        if epoch is not None and self.epoch_before(entity) not in (0, epoch):
            raise Refused("mismatched_epoch")

    def bury(self, place: Steps, entity: Json) -> None:
        self.graves[place] = self.epoch_before(entity) + 1


def check_id(body: Json, name: str, expected: str) -> None:
    if body.get(name, expected) != expected:
        raise Refused("mismatched_id")
