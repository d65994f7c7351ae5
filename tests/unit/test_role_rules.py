"""Claims get the roles that rules give them, and no others; settings refuse what would surprise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from catalog.model.roles import PERMISSIONS, ROLES, Permission, RoleRule, grants_from, roles_with
from catalog.settings import Settings

ONE = {"oidc_issuers": ("https://id.example",), "oidc_audiences": ("a",)}
TWO = {"oidc_issuers": ("https://a.example", "https://b.example"), "oidc_audiences": ("a",)}


@pytest.mark.parametrize(
    ("rule", "claims", "is_met"),
    [
        ("reader:sub=*", {"sub": "x"}, True),
        ("reader:sub=*", {}, False),
        ("reader:sub=*", {"sub": []}, False),
        ("writer:scope=a.write", {"scope": "a.read a.write"}, True),
        ("writer:scope=a.write", {"scope": "a.writer"}, False),
        ("writer:scope=api:write", {"scope": "api:write"}, True),
        # Whoever may choose a name may write the name of a role into it.
        ("admin:name=admins", {"name": "I am admins"}, False),
        ("admin:groups=admins", {"groups": ["staff", "admins"]}, True),
        ("admin:groups=admins", {"groups": "admins"}, True),
        ("admin:groups=admins", {"groups": [["admins"]]}, False),
        ("admin:groups=admins", {"groups": {"admins": True}}, False),
        ("admin:realm_access.roles=admins", {"realm_access": {"roles": ["admins"]}}, True),
        ("admin:realm_access.roles=admins", {"realm_access": ["roles"]}, False),
        ("admin:https://x.example/roles=r", {"https://x.example/roles": ["r"]}, True),
        ("reader:email_verified=true", {"email_verified": True}, True),
        ("reader:level=1", {"level": 1}, False),
        ("admin:iss=https://a&groups=g", {"iss": "https://a", "groups": ["g"]}, True),
        ("admin:iss=https://a&groups=g", {"iss": "https://b", "groups": ["g"]}, False),
    ],
)
def test_a_rule_is_met_by_what_it_says(rule: str, claims: dict[str, Any], is_met: bool) -> None:
    assert RoleRule.parse(rule).is_met_by(claims) is is_met


@pytest.mark.parametrize("text", ["", "reader", "reader:", "reader:sub", "boss:sub=*", "admin:=x"])
def test_a_rule_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ROLE:CLAIM=VALUE"):
        RoleRule.parse(text)


def test_several_rules_add_up() -> None:
    rules = [*map(RoleRule.parse, ("reader:a=1", "reader:b=1", "admin:c=1"))]
    assert [grant.role for grant in grants_from(rules, {"a": "1", "b": "1"})] == ["reader"]
    assert grants_from(rules, {}) == ()


def test_every_role_reads_and_only_an_admin_may_everything() -> None:
    assert all(Permission.READ in PERMISSIONS[role] for role in ROLES)
    assert [role for role in ROLES if PERMISSIONS[role] == {*Permission}] == ["admin"]
    assert roles_with(Permission.WRITE) == ("writer", "admin")


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "open": True}, True),
        ({"open": False}, False),
        ({"anonymous_role": "reader"}, False),
        ({**ONE, "oidc_roles": ("reader:sub=*",)}, False),
    ],
)
def test_a_node_is_open_on_loopback_until_it_is_told_whom_to_know(
    given: dict[str, Any], is_open: bool
) -> None:
    assert Settings(**given).is_open is is_open


@pytest.mark.parametrize(
    "given",
    [
        # Everybody, and somebody.
        {"open": True, "anonymous_role": "reader"},
        {"open": True, **ONE, "oidc_roles": ("reader:sub=*",)},
        # In so many words, or not at all.
        {"anonymous_role": "admin"},
        # Tokens that are for others.
        {"oidc_issuers": ("https://id.example",), "oidc_roles": ("reader:sub=*",)},
        # The groups of one issuer are not those of another.
        {**TWO, "oidc_roles": ("admin:groups=admins",)},
        {**TWO, "oidc_roles": ("admin:iss=*&groups=admins",)},
        {**TWO, "oidc_roles": ("admin:iss=https://c.example&groups=admins",)},
        # Keys that anybody on the way could replace.
        {**ONE, "oidc_issuers": ("http://id.example",), "oidc_roles": ("reader:sub=*",)},
        *({"oidc_algorithms": (name,)} for name in ("none", "HS256", "RS1", "dir")),
        {"tls_cert": Path("a")},
        {"tls_client_ca": Path("c")},
        {"oidc_leeway_seconds": 3600},
    ],
)
def test_settings_that_would_let_the_wrong_ones_in_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**given)


def test_two_issuers_have_rules_of_their_own() -> None:
    rules = "admin:iss=https://a.example&groups=admins", "reader:iss=https://b.example"
    assert Settings(**TWO, oidc_roles=rules).oidc_roles == rules
