"""Tokens of real OpenID Connect providers let callers in, and whatever else is shown does not."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import RSAKey

from catalog.access import providers as providing
from catalog.access.authentication import AUTHENTICATION, RememberedCallers
from catalog.access.identity import Identity
from catalog.load.limiter import Rate
from tests.brokers.oidcprovider import AUDIENCE, OidcProvider, run_providers
from tests.integration.conftest import Answer, Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROLES = "reader:scope=catalog.read,writer:scope=catalog.write,admin:groups=admins"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def providers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[OidcProvider]]:
    """One that the node knows, and one that it does not."""
    directory: Path = tmp_path_factory.mktemp("oidc")
    async with run_providers(directory, 2) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str, providers: list[OidcProvider]) -> AsyncIterator[Node]:
    async with start_node(
        shared_database_url,
        oidc_issuers=providers[0].issuer,
        oidc_audiences=AUDIENCE + f",{AUDIENCE}/brief",
        oidc_roles=ROLES,
        oidc_leeway_seconds=0,
    ) as running:
        # Each test shows many wrong ones.
        running.client.app[AUTHENTICATION].wrong = Rate(1e6, 1e6)
        yield running


@pytest.fixture
def provider(node: Node, providers: list[OidcProvider]) -> OidcProvider:
    node.client.app[AUTHENTICATION].remembered.forget()
    return providers[0]


async def whoami(node: Node, token: str) -> Answer:
    return await node.send("GET", "/access/whoami", Authorization=f"Bearer {token}")


async def roles_of(node: Node, token: str) -> list[str]:
    answer = await whoami(node, token)
    assert answer.status == 200, answer.body
    return [grant["role"] for grant in answer.json["grants"]]


async def why_refused(node: Node, token: str) -> str:
    answer = await whoami(node, token)
    assert (answer.status, answer.error) == (401, "unauthenticated"), answer.body
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="concord", error="invalid_token"'
    return str(answer.json["args"]["error_detail"])


async def test_a_token_has_the_roles_of_its_claims(node: Node, provider: OidcProvider) -> None:
    token = await provider.token()
    shown = (await whoami(node, token)).json
    assert (shown["kind"], shown["name"]) == ("jwt", "plant")
    assert shown["issuer"] == provider.issuer
    assert await roles_of(node, token) == ["reader"]
    write = {"Authorization": f"Bearer {token}"}
    assert (await node.send("PUT", "/messagegroups/m", {}, **write)).status == 403
    token = await provider.token(scope="catalog.read catalog.write")
    assert await roles_of(node, token) == ["reader", "writer"]
    assert await roles_of(node, await provider.token("boss")) == ["reader", "admin"]


async def test_a_token_of_another_audience_or_issuer_proves_nothing(
    node: Node, provider: OidcProvider, providers: list[OidcProvider]
) -> None:
    other = await provider.token(audience="https://other.example")
    assert await why_refused(node, other) == "aud of the token is missing or not accepted here"
    stranger = await providers[1].token("boss")
    assert "of no issuer" in await why_refused(node, stranger)


async def test_a_token_ends_although_it_was_verified_before(
    node: Node, provider: OidcProvider
) -> None:
    token = await provider.token(audience=f"{AUDIENCE}/brief")
    async with asyncio.timeout(30):
        while (await whoami(node, token)).status == 200:
            await asyncio.sleep(0.05)  # between two looks, until a second has passed
    assert await why_refused(node, token) == "the token has expired"


async def test_keys_that_change_are_read_again_and_not_for_every_unknown_one(
    node: Node, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await provider.token()
    assert await roles_of(node, old) == ["reader"]
    await provider.rotate()
    new = await provider.token()
    monkeypatch.setattr(providing, "_PAUSE_SECONDS", 3600.0)
    before = await provider.reads()
    # The keys were read a moment ago, so an unknown one has to wait.
    assert "signature" in await why_refused(node, new)
    assert await provider.reads() == before
    monkeypatch.setattr(providing, "_PAUSE_SECONDS", 0.0)
    assert await roles_of(node, new) == ["reader"]
    assert await provider.reads() == before + 1
    # What was verified is remembered for a minute; then the withdrawn key counts no more.
    assert await roles_of(node, old) == ["reader"]
    node.client.app[AUTHENTICATION].remembered.forget()
    assert "signature" in await why_refused(node, old)
    monkeypatch.setattr(providing, "_PAUSE_SECONDS", 3600.0)
    before = await provider.reads()
    answers = await asyncio.gather(*(whoami(node, forged(new, kid=f"k{n}")) for n in range(40)))
    assert {answer.status for answer in answers} == {401}
    assert await provider.reads() == before


async def test_a_node_whose_provider_is_away_says_so_and_does_not_let_in(
    shared_database_url: str, provider: OidcProvider
) -> None:
    token = parts(await provider.token())
    claims = {**token[1], "iss": "http://127.0.0.1:9"}
    async with start_node(
        shared_database_url,
        oidc_issuers="http://127.0.0.1:9",
        oidc_audiences=AUDIENCE,
        oidc_roles=ROLES,
    ) as node:
        answer = await whoami(node, joined(token[0], claims, token[2]))
    assert (answer.status, answer.error) == (503, "issuer_away")
    assert answer.headers["Retry-After"]


def parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    header, claims, signature = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")
    )
    return orjson.loads(header), orjson.loads(claims), signature


def joined(header: Any, claims: Any, signature: bytes) -> str:
    texts = (orjson.dumps(header), orjson.dumps(claims), signature)
    return ".".join(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in texts)


def forged(token: str, claims: dict[str, Any] | None = None, **header: Any) -> str:
    """The token with other members, and the signature that it had."""
    found = parts(token)
    changed = {name: value for name, value in (found[0] | header).items() if value is not None}
    return joined(changed, found[1] | (claims or {}), found[2])


async def test_no_forged_token_is_taken(node: Node, provider: OidcProvider) -> None:
    token = await provider.token()
    header, claims, signature = parts(token)
    assert await roles_of(node, token) == ["reader"]
    async with provider.session.get(f"{provider.issuer}/jwks") as response:
        public = (await response.json())["keys"][0]
    own = RSAKey.generate_key(2048, private=True)
    boss = claims | {"groups": ["admins"], "sub": "boss"}
    # A public key as the secret of a symmetric one (RFC 8725, 2.1).
    secrets = RSAKey.import_key(public).as_pem(), orjson.dumps(public), public["n"].encode()

    def signed(made: dict[str, Any]) -> str:
        return jws.serialize_compact(made, orjson.dumps(boss), own, algorithms=["RS256"])

    def sealed(secret: bytes) -> str:
        text = joined(header | {"alg": "HS256"}, boss, b"")
        code = hmac.digest(secret, text.removesuffix(".").encode(), "sha256")
        return joined(header | {"alg": "HS256"}, boss, code)

    tries = [
        joined(header | {"alg": "none"}, boss, b""),
        joined(header | {"alg": "None"}, boss, signature),
        *map(sealed, secrets),
        signed(header),
        signed(header | {"jwk": own.as_dict(private=False)}),
        signed(header | {"jku": f"{provider.issuer}/jwks"}),
        # Another algorithm than the one that the key is for, and than those that are accepted.
        forged(token, alg="PS256"),
        forged(token, alg="ES256"),
        forged(token, alg="RS512"),
        forged(token, typ="logout+jwt"),
        forged(token, typ=1),
        forged(token, kid=["a"]),
        forged(token, kid=None, alg="ES256"),
        forged(token, crit=["b64"], b64=False),
        forged(token, crit=[]),
        forged(token, boss),
        forged(token, {"exp": claims["exp"] + 1}),
        forged(token, {"iss": [provider.issuer]}),
        joined(header, claims, signature[:-1]),
        joined(header, claims, b""),
        joined([], claims, signature),
        joined(header, [], signature),
        joined(header, claims, signature) + ".",
        f"{token.rpartition('.')[0]}.",
    ]
    for number, forgery in enumerate(tries):
        assert await why_refused(node, forgery), number
    deep = base64.urlsafe_b64encode(b"[" * 4000).decode().rstrip("=")
    assert await why_refused(node, f"{deep[:600]}.{deep}.AA")
    assert await why_refused(node, f"{token.split('.')[0]}.{deep}.AA")


async def test_a_header_that_is_no_token_is_refused_whatever_it_holds(
    node: Node, provider: OidcProvider
) -> None:
    token = await provider.token()

    async def status(*values: str) -> int:
        headers = [("Authorization", value) for value in values]
        async with node.client.get("/messagegroups", headers=headers) as response:
            return response.status

    assert await status(f"bearer {token}") == 200
    assert await status(f"Bearer {token}", f"Bearer {token}") == 401
    for value in ("", "Bearer", f"Bearer  {token}", f"Basic {token}", token, f"Bearer {token} x"):
        assert await status(value) == 401, value
    # A token may be the password of any user.
    for user, password, expected in (
        *(("", token, 200), ("any:one", "", 401), ("any", token, 200), ("any", f"{token}x", 401)),
        *((token, "", 401), ("any", f"{token}:x", 401), ("\xe9", token, 200)),
    ):
        both = base64.b64encode(f"{user}:{password}".encode()).decode()
        assert await status(f"Basic {both}") == expected, (user, password)
    assert await status("Basic /w==") == 401
    # aiohttp refuses a longer header.
    assert await status(f"Bearer {'a' * 8001}") == 401


@settings(max_examples=60, suppress_health_check=[*HealthCheck])
@given(st.data())
async def test_no_random_header_lets_anybody_in_or_is_an_error_of_the_node(
    node: Node, data: st.DataObject
) -> None:
    text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=200)
    json = st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=6,
    )
    names = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "iss", "aud", "exp", "sub"])
    objects = st.dictionaries(names, json | st.sampled_from(["RS256", "JWT"]), max_size=6)
    secret = st.binary(max_size=60)
    jwt = st.builds(joined, objects.map(_writable), objects.map(_writable), secret)
    own = st.builds(lambda b: f"concord_{base64.urlsafe_b64encode(b).decode()[:43]}", secret)
    value = data.draw(text | jwt.map(lambda t: f"Bearer {t}") | own.map(lambda t: f"Bearer {t}"))

    answer = await node.send("GET", "/messagegroups", Authorization=value.strip())

    assert answer.status == 401, (value, answer.body)
    assert value.strip() not in answer.body.decode() or len(value.strip()) < 20


def _writable(value: Any) -> Any:
    """The value, as far as it fits into JSON."""
    try:
        orjson.dumps(value)
    except TypeError:
        return {}
    return value


async def test_remembered_callers_are_few_and_not_for_long() -> None:
    remembered, caller = RememberedCallers(most=3), Identity("token", "t")
    for credential in "abcde":
        remembered.keep(credential, caller, 60)
    assert [remembered.find(each) for each in "abcde"] == [None, None, *[caller] * 3]
    remembered.keep("e", caller, -1)
    remembered.keep("d", caller, 1e-9)
    assert [remembered.find(each) for each in "cde"] == [caller, None, None]
