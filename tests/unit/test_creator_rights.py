"""The creator of a subscription has rights by the settings of now and the claims of then."""

from __future__ import annotations

from typing import Any, cast

import pytest

from catalog.access.creatorrights import CreatorRights
from catalog.access.rolerules import KnownRules
from catalog.model.roles import Creator, Permission, token_principal
from catalog.settings import Settings


class NoRules:
    """Nothing is read of a database for what a caller may do in the whole catalog."""


ISSUER = "https://id.example"
KNOWN: dict[str, Any] = {
    "open": False,
    "oidc_issuers": [ISSUER],
    "oidc_audiences": ["https://catalog.example"],
    "oidc_roles": ["writer:groups=editors"],
    "anonymous_role": "reader",
}
EDITOR = Creator("jwt", "alice", ISSUER, {"groups": ["editors"], "exp": 1})


def rights(**settings: Any) -> CreatorRights:
    return CreatorRights(Settings(**settings), cast("KnownRules", NoRules()))


@pytest.mark.parametrize(
    ("creator", "permission", "expected"),
    [
        (None, Permission.ADMINISTER, True),
        (EDITOR, Permission.WRITE, True),
        (Creator("jwt", "alice", ISSUER, {"groups": ["others"]}), Permission.READ, False),
        (Creator("jwt", "alice", "https://other", EDITOR.claims), Permission.READ, False),
        (Creator("certificate", "cn=a", "", {"cn": ["a"]}), Permission.READ, False),
        (Creator("anonymous"), Permission.READ, True),
        (Creator("anonymous"), Permission.WRITE, False),
        (Creator("token", "t", roles=("replicator",)), Permission.FOLLOW, True),
        (Creator("token", "t"), Permission.READ, False),
    ],
)
def test_a_creator_may_do_what_the_node_would_let_it_do(
    creator: Creator | None, permission: Permission, expected: bool
) -> None:
    found = rights(**KNOWN).in_all(creator)

    assert (permission in found.permissions) is expected


def test_in_an_open_node_everybody_may_do_everything() -> None:
    assert Permission.ADMINISTER in rights(open=True).in_all(Creator("token", "t")).permissions


def test_a_provider_that_is_no_longer_trusted_proves_nothing() -> None:
    found = rights(open=False, anonymous_role="reader").in_all(EDITOR)

    assert (found.permissions, found.claims) == (frozenset(), {})


def test_a_creator_is_read_as_it_was_written_without_what_passes() -> None:
    found = Creator.parse(str(EDITOR))

    assert found == Creator("jwt", "alice", ISSUER, {"groups": ["editors"]})
    assert found.principal == EDITOR.principal


def test_the_text_of_a_principal_is_that_of_one_caller_and_fits_a_database() -> None:
    assert token_principal("t1") == '["token","","t1"]'  # sql/subscriptions.sql writes it, too
    odd = Creator("jwt", 'a"\0,"b', ISSUER).principal
    assert "\0" not in odd
    assert odd != Creator("jwt", "b", f'{ISSUER}","a').principal
