"""The operations of `/access`: the caller, the node's own tokens, and rules for groups."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from catalog.model.roles import (
    LONGEST_WHO,
    PATH,
    WHOLE_CATALOG,
    IdentityKind,
    Permission,
    Role,
    Who,
    is_wild,
    parse_path,
)
from catalog.operations.operation import (
    LOCATION,
    AnswerBody,
    Anyone,
    Body,
    Operation,
    PageQuery,
    Time,
)

MOST_PATHS = 10_000
MOST_WILD_PATHS = 100
"""The maximum number of paths with wildcards in a rule: no index finds such paths."""

# Enough values for the paths of a rule, with brackets and names.
_MOST_VALUES = 3 * MOST_PATHS


def _check_path(text: str) -> str:
    try:
        return parse_path(text)
    except ValueError as error:
        raise ValueError(f"a path {error}") from error


def _check_who(text: str) -> str:
    try:
        return str(Who.parse(text))
    except ValueError as error:
        raise ValueError(f"it {error}") from error


def _check_wild(paths: tuple[str, ...]) -> tuple[str, ...]:
    if sum(map(is_wild, paths)) > MOST_WILD_PATHS:
        raise ValueError(f"at most {MOST_WILD_PATHS} paths may have wildcards")
    return paths


def _check_groups(paths: tuple[str, ...]) -> tuple[str, ...]:
    if WHOLE_CATALOG in paths:
        raise ValueError(
            'a rule gives roles in groups: "/*/*" are all of them, and roles for the whole catalog '
            "are those of tokens and of the settings"
        )
    return tuple(dict.fromkeys(_check_wild(paths)))


def _check_end(end: datetime | None) -> datetime | None:
    if end is not None and end <= datetime.now(UTC):
        raise ValueError("it has passed already")
    return end


Path = Annotated[
    str,
    AfterValidator(_check_path),
    Field(
        description="`/` is the whole catalog, `/GROUPTYPE/GROUPID` a group with all below it; `*` "
        "stands for any characters in either part.",
        json_schema_extra={"pattern": f"^(/|{PATH.pattern})$"},
    ),
]
Condition = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_WHO,
        description="Whom the rule is for: `token=ID`, `anonymous`, or what the claims of a token "
        "or the names of a certificate have to be, as `groups=editors&iss=https://id.example`.",
    ),
    AfterValidator(_check_who),
]
GroupPaths = Annotated[
    tuple[Path, ...], Field(min_length=1, max_length=MOST_PATHS), AfterValidator(_check_groups)
]
Name = Annotated[str, Field(max_length=128)]


class PathGrant(Body):
    """A role at and below a path."""

    role: Role
    path: Path = WHOLE_CATALOG


class Whoami(AnswerBody):
    """The caller as known to the node, with roles."""

    kind: IdentityKind
    name: str | None = None
    issuer: str | None = None
    grants: list[PathGrant]
    more: Literal[True] | None = Field(None, description="There are more grants than are listed.")
    open: bool = Field(description="Everybody may do everything.")


class NewToken(Body):
    """A token that a client asks for."""

    name: Name = ""
    grants: Annotated[tuple[PathGrant, ...], Field(min_length=1, max_length=MOST_PATHS)]
    expiresat: Annotated[Time | None, AfterValidator(_check_end)] = None


class Token(AnswerBody):
    """A token issued by the node."""

    id: str
    name: Name
    grants: list[PathGrant]
    createdat: Time
    expiresat: Time | None = None
    usedat: Time | None = Field(None, description="The last use, to the minute.")
    more: Literal[True] | None = Field(
        None,
        description="There are more grants than the answer has; a list of tokens does not tell.",
    )
    token: str | None = Field(
        None, description="The token itself, in the answer to its creation only."
    )


class Tokens(AnswerBody):
    """The tokens of a node, newest first."""

    tokens: list[Token]


class NewRule(Body):
    """A rule that gives a role in groups to each caller that meets a condition."""

    who: Condition
    role: Role
    paths: GroupPaths


class RuleChanges(Body):
    """The members of a rule to replace."""

    who: Condition | None = None
    role: Role | None = None
    paths: GroupPaths | None = None


class GrantingRule(AnswerBody):
    """A rule stored by the node; a list of rules shows only the first paths of each rule."""

    id: str
    who: str
    role: Role
    paths: list[str]
    pathscount: int = Field(ge=1)
    createdat: Time
    createdby: str


class GrantingRules(AnswerBody):
    """A page of rules."""

    rules: list[GrantingRule]


_RULES, _RULE = "/access/rules", "/access/rules/{id}"
_TOKENS, _TOKEN = "/access/tokens", "/access/tokens/{id}"

WHOAMI = Operation("GET", "/access/whoami", Anyone.TOLD, answers=Whoami, is_kept=False)
LIST_TOKENS = Operation("GET", _TOKENS, Permission.ADMINISTER, answers=Tokens, is_kept=False)
CREATE_TOKEN = Operation(
    "POST",
    _TOKENS,
    Permission.ADMINISTER,
    takes=NewToken,
    answers=Token,
    status=201,
    headers=LOCATION,
    refuses=(409,),
    most_values=_MOST_VALUES,
)
GET_TOKEN = Operation("GET", _TOKEN, Permission.ADMINISTER, answers=Token, is_kept=False)
DELETE_TOKEN = Operation("DELETE", _TOKEN, Permission.ADMINISTER)
LIST_RULES = Operation(
    "GET", _RULES, Permission.GRANT, answers=GrantingRules, query=PageQuery, is_kept=False
)
CREATE_RULE = Operation(
    "POST",
    _RULES,
    Permission.GRANT,
    takes=NewRule,
    answers=GrantingRule,
    status=201,
    headers=LOCATION,
    refuses=(409,),
    most_values=_MOST_VALUES,
)
GET_RULE = Operation("GET", _RULE, Permission.GRANT, answers=GrantingRule, is_kept=False)
CHANGE_RULE = Operation(
    "PATCH",
    _RULE,
    Permission.GRANT,
    takes=RuleChanges,
    answers=GrantingRule,
    most_values=_MOST_VALUES,
)
DELETE_RULE = Operation("DELETE", _RULE, Permission.GRANT)
