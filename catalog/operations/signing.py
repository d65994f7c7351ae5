"""The operations on keys: an authority's own keys, trusted keys, and signatures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Body, Operation, Query, Time
from catalog.operations.peers import Authority, Count, KeyId, KeyText, ShownKey, being

Reason = Literal["named", "first", "endorsed"]
Finding = Literal["verified", "unsigned", "unknown", "false", "damaged"]
_LONGEST_AFTER = 4096


class SigningSwitch(Body):
    """Whether an authority is to sign published entities."""

    on: StrictBool


class KeyRotation(Body):
    """The options to replace a key by a new key."""

    revoke: StrictBool = Field(
        default=False, description="Nothing that the old key has signed is valid."
    )


class Signing(AnswerBody):
    """Whether an authority signs, and the keys."""

    authority: Authority
    on: bool
    key: KeyText | None = Field(default=None, description="The key that signs.")
    complete: bool = Field(description="Everything is signed, also what was there before.")
    keys: list[ShownKey]


class NewTrust(Body):
    """A key of an authority; from then on, copies of the authority need a signature."""

    authority: Authority
    key: KeyText


class TrustedKeyAnswer(AnswerBody):
    """A trusted key: named by an operator, seen at first contact, or endorsed by a trusted key."""

    key: KeyText
    id: KeyId
    reason: Reason
    trustedat: Time
    revokedat: Time | None = None


class TrustedAuthority(AnswerBody):
    """The keys by which a node verifies the signatures of an authority."""

    authority: str
    keys: list[TrustedKeyAnswer]


class TrustedAuthorities(AnswerBody):
    """The authorities with trusted keys."""

    trusted: list[TrustedAuthority]


class AuthorityQuery(Query):
    """An authority."""

    authority: Authority


class PartQuery(Query):
    """The part of a catalog to verify."""

    after: Annotated[str, being(lambda text: "\0" not in text, "where a part ends")] = Field(
        default="", max_length=_LONGEST_AFTER, description="As the part before says."
    )


class SignatureFault(AnswerBody):
    """A copy with a false signature or damaged content."""

    authority: str
    xid: str
    detail: str


class SignatureAudit(AnswerBody):
    """The result of verifying signatures and content of a part of a catalog."""

    counts: dict[str, dict[Finding, Count]] = Field(description="By authority and finding.")
    pinned: list[str] = Field(description="The authorities whose keys are trusted.")
    faults: list[SignatureFault] = Field(description="The first faults.")
    after: str | None = Field(default=None, description="Where the next part begins, if any.")


_SIGNING, _TRUST = "/replication/signing", "/replication/trust"

GET_SIGNING = Operation("GET", _SIGNING, Permission.REPLICATE, answers=Signing)
SET_SIGNING = Operation(
    "PUT", _SIGNING, Permission.ADMINISTER, takes=SigningSwitch, answers=Signing
)
ROTATE_KEY = Operation(
    "POST",
    f"{_SIGNING}/rotate",
    Permission.ADMINISTER,
    takes=KeyRotation,
    answers=Signing,
    refuses=(409,),
)
LIST_TRUST = Operation("GET", _TRUST, Permission.ADMINISTER, answers=TrustedAuthorities)
ADD_TRUST = Operation(
    "POST", _TRUST, Permission.ADMINISTER, takes=NewTrust, answers=TrustedAuthority, status=201
)
REMOVE_TRUST = Operation(
    "DELETE", _TRUST, Permission.ADMINISTER, query=AuthorityQuery, refuses=(404,)
)
CHECK_SIGNATURES = Operation(
    "GET", "/replication/signatures", Permission.FOLLOW, query=PartQuery, answers=SignatureAudit
)
