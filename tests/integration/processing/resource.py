"""The algorithm by which one request changes one resource.

Source: core/spec.md, "Resource Processing Algorithm" and "Cross Referencing Resources".
"""

from __future__ import annotations

from tests.integration.processing.entities import (
    MUTABLE,
    Json,
    Kind,
    Ledger,
    Refused,
    Steps,
    check_id,
)
from tests.integration.processing.lineage import is_circular, is_placed, newest, oldest, ordered


def new_resource(ledger: Ledger, place: Steps) -> Json:
    """A resource, whose attributes are those of its meta.

    `given` are the ids that versions had that are gone.
    """
    own = {"versions": {}, "given": set(), "xref": None, "defaultversionid": None}
    return ledger.new(place) | own | {"defaultversionsticky": False}


class ResourceWrite:
    """What one request does to one resource.

    Args:
        is_new: whether the request creates it.
        default: what `setdefaultversionid` says.
        target_epoch: that of the resource that it refers to, if it is a cross reference.
    """

    def __init__(
        self,
        ledger: Ledger,
        kind: Kind,
        place: Steps,
        resource: Json,
        *,
        is_new: bool,
        patch: bool,
        default: str | None = None,
        target_epoch: int = 0,
    ) -> None:
        self.ledger, self.kind, self.place, self.resource = ledger, kind, place, resource
        self.is_new, self.patch, self.default = is_new, patch, default
        self.target_epoch = target_epoch
        self.versions: Json = resource["versions"]
        self.written: list[str] = []
        self.added: list[str] = []
        self.chosen = ""

    def post(self, body: Json) -> None:
        """POST to the resource: one version, whose id the server may choose."""
        vid = body.get("versionid") or self._choose_id()
        if body.get("ancestorid") == "request":
            body = {**body, "ancestorid": vid}
        if self.default == "request":
            if vid in self.versions:
                raise Refused("defaultversionid_request")
            self.default = vid
        self.write(versions={vid: body})

    def write(
        self, *, own: Json | None = None, meta: Json | None = None, versions: Json | None = None
    ) -> None:
        """The three parts of the resource, as far as the request has them."""
        for body in (own, meta):
            check_id(body or {}, self.kind.id, self.place[-1])
        before = xref = self.resource["xref"]
        if meta is not None:
            xref = meta.get("xref", before if self.patch else None)
        if xref:
            self._refer(xref, own, meta, versions)
            return
        if before:
            self._stop_referring()
        self._write_versions(own, meta, versions or {})
        self._find_ancestors()
        if meta is not None:
            self.ledger.write(self.resource, meta, patch=self.patch)
        self._settle_default(meta)
        self._prune()

    # Steps 1 and 2.

    def _write_versions(self, own: Json | None, meta: Json | None, versions: Json) -> None:
        for vid, body in versions.items():
            self._write_version(vid, body)
        if current := self.resource["defaultversionid"]:
            if own is not None:
                check_id(own, "versionid", current)
                if current not in versions:
                    self._write_version(current, own)
            return
        wish = None if self.default == "null" else self.default
        if self.default is None:
            wish = (meta or {}).get("defaultversionid")
        vid = (own or {}).get("versionid") or wish
        if vid is None and not versions:
            vid = self._choose_id()
        if vid is not None and vid not in versions and (own is not None or not versions):
            self._write_version(vid, own or {})

    def _write_version(self, vid: str, body: Json) -> None:
        check_id(body, "versionid", vid)
        check_id(body, self.kind.id, self.place[-1])
        if vid not in self.versions:
            if not self.kind.sets_ids and vid != self.chosen:
                raise Refused("versionid_not_allowed")
            self.versions[vid] = self.ledger.new((*self.place, vid)) | {"ancestorid": None}
            self.added.append(vid)
            self.ledger.touch(self.resource)
        self.written.append(vid)
        self.ledger.write(self.versions[vid], body, patch=self.patch)
        if body.get("ancestorid"):
            self.versions[vid]["ancestorid"] = body["ancestorid"]

    def _choose_id(self) -> str:
        taken, number = self.resource["given"] | {*self.versions}, 1
        while str(number) in taken:
            number += 1
        self.chosen = "1.0.0" if self.kind.mode == "semver" else str(number)
        return self.chosen

    # Step 3.

    def _find_ancestors(self) -> None:
        for version in self.versions.values():
            if version["ancestorid"] not in (None, *self.versions):
                raise Refused("unknown_id")
        if self.kind.mode == "manual":
            self._adopt()
        else:
            self._line_up()
        self._check_roots()

    def _adopt(self) -> None:
        orphans = [vid for vid, x in self.versions.items() if x["ancestorid"] is None]
        for vid in sorted(orphans, key=str.lower):
            others = {
                other: version
                for other, version in self.versions.items()
                if is_placed(self.versions, other)
            }
            self.versions[vid]["ancestorid"] = newest(self.kind, others) if others else vid
        if is_circular(self.versions):
            raise Refused("ancestor_circular_reference")

    def _line_up(self) -> None:
        line = ordered(self.kind, self.versions)
        for ancestor, vid in zip([line[0], *line], line, strict=False):
            self._descend(vid, ancestor)

    def _descend(self, vid: str, ancestor: str) -> None:
        version = self.versions[vid]
        if version["ancestorid"] != ancestor:
            version["ancestorid"] = ancestor
            self.ledger.touch(version, timed=self.kind.mode != "modifiedat")

    def _check_roots(self) -> None:
        roots = [vid for vid, version in self.versions.items() if version["ancestorid"] == vid]
        if self.kind.one_root and len(roots) > 1:
            raise Refused("multiple_roots")

    # Step 5.

    def _settle_default(self, meta: Json | None = None) -> None:
        sticky, chosen = self._chosen_default(meta)
        if sticky and self.kind.limit == 1:
            raise Refused("setdefaultversionsticky_false")
        if sticky and chosen and chosen not in self.versions:
            raise Refused("unknown_id")
        settled = chosen if sticky and chosen else newest(self.kind, self.versions)
        default = {"defaultversionid": settled, "defaultversionsticky": sticky}
        if not default.items() <= self.resource.items():
            self.ledger.touch(self.resource)
            self.resource |= default

    def _chosen_default(self, meta: Json | None) -> tuple[bool, str | None]:
        """Whether the default version is to stay, and which one it is to be then."""
        if self.default is not None:
            return self.default != "null", self.default
        sticky = self.resource["defaultversionsticky"]
        chosen = self.resource["defaultversionid"] if sticky else None
        if meta is None:
            return sticky, chosen
        if not self.patch:
            sticky, chosen = False, None
        elif "defaultversionid" in meta:
            sticky = meta["defaultversionid"] is not None
        sticky = bool(meta.get("defaultversionsticky", sticky))
        return sticky, meta.get("defaultversionid", chosen)

    # Step 10.

    def _prune(self) -> None:
        while self.kind.limit and len(self.versions) > self.kind.limit:
            gone = oldest(self.kind, self._expendable())
            if self.written == self.added == [gone] and not self.is_new:
                raise Refused("bad_request")
            self._remove([gone])
            self._settle_default()
        self._check_roots()

    def _expendable(self) -> Json:
        """All but the default version; of what leaves only one, what was there before."""
        spared = {self.resource["defaultversionid"]}
        if self.kind.limit == 1:
            spared = {*self.added} if {*self.versions} - {*self.added} else set()
        return {vid: version for vid, version in self.versions.items() if vid not in spared}

    # Deleting.

    def delete(self, vids: list[str]) -> None:
        """Delete some of the versions, but not the last one."""
        self._remove(vids)
        if self.resource["defaultversionid"] not in self.versions:
            self.resource["defaultversionsticky"] = False
        self._settle_default()
        self._check_roots()

    def _remove(self, vids: list[str]) -> None:
        for vid in vids:
            version = self.versions.pop(vid)
            self.ledger.touch(self.resource)
            if vid not in self.added:
                self.ledger.bury((*self.place, vid), version)
                self.resource["given"].add(vid)
        if self.kind.mode != "manual" and self.versions:
            self._line_up()
        for vid, version in self.versions.items():
            if version["ancestorid"] not in self.versions:
                self._descend(vid, vid)

    # Cross references.

    def _refer(self, xref: str, own: Json | None, meta: Json | None, versions: Json | None) -> None:
        """Become a cross reference, or stay one: the request can say nothing else."""
        groups, _, plural, _ = self.place
        match xref.split("/"):
            case ["", *steps] if (*steps[::2], len(steps)) == (groups, plural, 4):
                if (*steps,) == self.place:
                    raise Refused("malformed_xref")
            case _:
                raise Refused("malformed_xref")
        said = _said(own, self.kind.id) | _said(meta, self.kind.id, "xref", "epoch")
        if versions or said:
            raise Refused("extra_xref_attribute")
        if self.default not in (None, "null"):
            raise Refused("bad_defaultversionid")
        if epoch := (meta or {}).get("epoch"):
            if self.is_new or self.resource["xref"]:
                raise Refused("extra_xref_attribute")
            self.ledger.check_epoch(self.resource, epoch)
        self._remove([*self.versions])
        for name in MUTABLE:
            self.resource.pop(name, None)
        self.ledger.touch(self.resource)
        self.resource |= {"xref": xref, "defaultversionid": None, "defaultversionsticky": False}

    def _stop_referring(self) -> None:
        """From now on nothing of what it was, or referred to, counts but its epochs."""
        epoch = max(self.resource["epoch"], self.target_epoch)
        self.resource |= {"xref": None, "modifiedat": self.ledger.now, "epoch": epoch + 1}
        self.resource |= {"at": self.ledger.now, "was": (0, None)}


def _said(body: Json | None, *allowed: str) -> set[str]:
    return {name for name, value in (body or {}).items() if value is not None} - {*allowed}
