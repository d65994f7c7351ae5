"""The settings of a node: each setting has a default and an environment variable `CONCORD_*`."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    model_validator,
)
from pydantic_settings import SettingsConfigDict
from yarl import URL

from catalog.keys.keyring import EncryptionKey, parse_keys
from catalog.model.roles import RoleRule
from catalog.settings.limits import Limits
from catalog.settings.settingtypes import (
    Algorithms,
    HostNames,
    Issuers,
    KafkaUrl,
    Keys,
    Networks,
    Origins,
    PublicUrl,
    PublicUrls,
    RoleRules,
    Texts,
    is_loopback,
    key_texts,
)

# Processes that share an embedded database notify each other at once; the bound covers a process
# that failed to notify.
_EMBEDDED_STALENESS_SECONDS = 0.1
# Each connection reads pages of the replication feed for an unlimited number of readers.
FEED_CONNECTIONS = 3


# The place of the state of services (FHS 3.0, "/var/lib").
SYSTEM_DATA_DIR = Path("/var/lib/concord")


def _default_data_dir() -> Path:
    """The directory of the user; for root a system directory, unless root's own exists already.

    PostgreSQL does not run as root, and its account cannot enter the home directory of root.
    """
    home = Path(os.environ.get("XDG_DATA_HOME", ""))
    # A relative path is invalid, and ignored (XDG Base Directory, "Basics").
    if home.is_absolute():
        return home / "concord"
    own = Path.home() / ".local" / "share" / "concord"
    return SYSTEM_DATA_DIR if os.geteuid() == 0 and not own.exists() else own


class Settings(Limits):
    """The settings of a node; `Limits` has the sizes, counts and times.

    `Settings()` reads the environment; only the command line calls it. An empty variable counts as
    unset. docs/settings.md shows the description of each field.
    """

    model_config = SettingsConfigDict(
        env_prefix="CONCORD_",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        # An invalid URL or key may contain a secret nevertheless.
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    host: str = "127.0.0.1"
    """Address to listen on"""
    port: int = Field(8080, ge=0, le=65535)
    """Port to listen on; 0 is any free one"""
    data_dir: Path = Field(default_factory=_default_data_dir)
    """Directory of the embedded PostgreSQL and the encryption key; `/var/lib/concord` for root"""
    database_url: SecretStr | None = None
    """PostgreSQL to use, its standbys among the hosts; unset starts one in the data directory"""
    encryption_key: Keys | None = None
    """Keys of the secrets in the database, with commas between: the first encrypts, all decrypt.
    Unset uses the file `encryption.key` of the data directory, made at the first start; a node with
    processes on several machines needs the setting
    """
    public_url: PublicUrl | None = None
    """URL at which clients and peers reach this node; becomes a fresh node's authority"""
    authority: str | None = Field(
        None, max_length=1024, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$"
    )
    """Authority of a fresh node, if it is not `public_url`: that of a lost node, whose entities it
    is to recover. A node that is another authority does not start
    """
    authority_name: str | None = Field(None, max_length=200)
    """Name of the team or organisation behind the authority, which other catalogs show"""
    authority_region: str | None = Field(None, max_length=200)
    """Region of this node, such as `eu-central`, by which other catalogs place it on a map"""
    authority_contact: str | None = Field(None, max_length=200)
    """Whom to ask about this authority's entities: an address, a channel or a URL"""
    authority_url: PublicUrl | None = None
    """URL at which people find this catalog and its console; `public_url` unless set"""
    await_recovery: bool = False
    """Whether a fresh node takes no writes until it has recovered its entities from replicas
    (`concord recover`)
    """
    hosts: HostNames = ()
    """Further names that this node is reached by, with commas between, or `*`; it answers to those
    of `host` and `public_url`, to `localhost` and to addresses anyway, and to no others, since a
    page could have its own name lead here
    """
    registry_id: str = Field("concord", pattern=r"^[A-Za-z0-9_][A-Za-z0-9\-._~:@]{0,127}$")
    """Registry id of a fresh node"""
    initial_model: str = Field("default", min_length=1)
    """Model of a fresh node: `default`, `none`, or a JSON or YAML file, which may include others"""
    confluent_group: str | None = Field(None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9\-._~@]{0,127}$")
    """Schema group of the Confluent API's default context; unset is `schemas.` and the host of the
    authority. No other node of the federation may have a group of the same id
    """
    confluent_first_id: int | None = Field(None, ge=1, lt=2**31)
    """First schema id of the Confluent API's default context, such as 1; unset is a range of
    1,048,576 ids chosen by the authority, so that ids of several nodes differ
    """
    registries: PublicUrls = ()
    """URLs of further registries that discovery names, with commas between"""
    trusted_proxies: Networks = ()
    """Networks of the proxies before this node, with commas between, such as `10.0.0.0/8`: requests
    from there count as of the client that `X-Forwarded-For` names
    """
    cors_origins: Origins = ()
    """Origins whose pages may use the API, with commas between, or `*`; none by default, since any
    page that a user opens could change the catalog otherwise
    """
    open: bool | None = None
    """Whether everybody who reaches the node may do everything; unset means that they may while
    `host` is a loopback address and no setting names who else is known
    """
    anonymous_role: Literal["reader", "writer", "replicator"] | None = None
    """Role of those who show no credential, on a node that is not open"""
    oidc_issuers: Issuers = ()
    """OpenID Connect providers whose tokens (JWT) are known, with commas between, as the claim
    `iss` names them; their keys are found by discovery
    """
    oidc_audiences: Texts = ()
    """Audiences of tokens for this node, with commas between; a token needs one audience"""
    oidc_roles: RoleRules = ()
    """Roles of tokens by their claims, with commas between:
    `reader:sub=*,writer:scope=catalog.write`; `&` joins conditions. With several issuers, each rule
    names one (`admin:iss=https://id.example&groups=admins`)
    """
    oidc_algorithms: Algorithms = ()
    """Algorithms that tokens may be signed by; `RS256,PS256,ES256` unless set"""
    oidc_login_client: str | None = Field(None, max_length=1024)
    """Id of this node as a client of the provider, by which people log in to the console; without
    it, the console takes tokens only
    """
    oidc_login_secret: SecretStr | None = None
    """Secret of that client; without it, it is a public client"""
    oidc_login_issuer: str | None = None
    """The provider of the log-in, if `oidc_issuers` names several"""
    oidc_login_scope: str = Field("openid", max_length=1024)
    """Scopes that the log-in asks for, with spaces between; `offline_access` lets many providers
    renew the token until the session ends
    """
    oidc_login_parameters: Texts = ()
    """Further parameters by which the log-in asks for a token for this node, with commas between:
    `resource=https://catalog.example` (RFC 8707), or `audience=…`
    """
    oidc_leeway_seconds: float = Field(30.0, ge=0, le=300)
    """Difference of clocks that the times in a token may show"""
    tls_cert: Path | None = None
    """Certificate chain (PEM) of this node, which then serves https only"""
    tls_key: Path | None = None
    """Private key (PEM) of that certificate"""
    tls_client_ca: Path | None = None
    """Authorities (PEM) whose client certificates are known"""
    certificate_roles: RoleRules = ()
    """Roles of client certificates, with commas between, by `cn`, `o`, `ou`, `dns`, `uri` or
    `email`: `replicator:cn=eu.example`
    """
    mcp: bool = True
    """Whether `/mcp` offers tools to agents (Model Context Protocol), with the caller's rights"""
    event_names: Literal["rc4", "next"] = "rc4"
    """Names of events: `next` tells `deprecated` and `undeprecated` apart, which are both
    `deprecation` in 1.0-rc4
    """
    cache_staleness_seconds: NonNegativeFloat | None = None
    """Longest time that a read may miss a write of a process on another host. Unset it is none;
    with an embedded database, which is for one host, 0.1 seconds
    """
    processes: int = Field(1, ge=1, le=64)
    """Processes that answer requests; with more than one, another one delivers events, runs links
    and cleans up
    """
    allow_private_addresses: bool | None = None
    """Whether sinks and sources may be at private addresses; unset allows it while `host` and the
    host of `public_url`, if there is one, are those of a loopback address
    """
    allowed_addresses: Networks = ()
    """Networks that sinks and sources may be in, whatever they are, with commas between: nothing
    else allows link-local addresses and those of cloud platforms' metadata
    """
    kafka_url: KafkaUrl | None = None
    """Kafka cluster of links whose topics name no brokers: `kafkas://USER:PASSWORD@HOST:PORT`, with
    commas between several hosts; `kafka` is without TLS, and
    `?saslmechanism=SCRAM-SHA-512&cafile=FILE` may follow
    """
    pull_interval_seconds: PositiveFloat = 30.0
    """Time between two pulls of a link when no event causes one"""
    comparison_interval_seconds: NonNegativeFloat = 900.0
    """Time between two comparisons of the digests of a link and its peer; 0 is never"""
    delivery_timeout_seconds: PositiveFloat = 10.0
    """Longest time that a sink may take to answer a delivery"""
    validate_sinks: bool = True
    """Whether the sink of a web hook has to consent before anything is sent to it (http-webhook.md
    4); those on a loopback address never have to
    """
    consent_hours: float = Field(24.0, gt=0, le=8760)
    """Time in which a sink has to consent; the subscription ends then"""
    backoff_initial_seconds: PositiveFloat = 0.5
    """Pause after the first failure of a sink, token endpoint or peer; it grows from there"""
    backoff_cap_seconds: PositiveFloat = 300.0
    """Longest pause after failures of a sink or peer"""
    database_pool_size: PositiveInt = 10
    """Most connections to PostgreSQL that one process opens for requests"""
    database_task_connections: int = Field(8, ge=4)
    """Most connections that one process opens for deliveries, links and its other tasks; the other
    tasks keep two. A process has one more connection to watch the database
    """
    publish_authors: bool = False
    """Whether changes of this node's entities name their authors to everybody who reads them here,
    and with the copies to everybody at the catalogs that follow
    """
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe log events to write"""
    log_format: Literal["json", "console"] | None = None
    """Form of the log; without it, `console` on a terminal and `json` elsewhere"""

    @model_validator(mode="after")
    def _check_who_is_known(self) -> Self:
        if self.open and self._names_callers:
            raise ValueError("CONCORD_OPEN lets everybody in, so name nobody besides")
        if self.oidc_issuers and not self.oidc_audiences:
            raise ValueError("CONCORD_OIDC_ISSUERS needs CONCORD_OIDC_AUDIENCES")
        if self.oidc_login_client and self.login_issuer not in self.oidc_issuers:
            raise ValueError(
                "CONCORD_OIDC_LOGIN_CLIENT needs one of CONCORD_OIDC_ISSUERS, which "
                "CONCORD_OIDC_LOGIN_ISSUER names if there are several"
            )
        if not all(name and is_given for name, is_given, _ in self._login_pairs):
            raise ValueError("CONCORD_OIDC_LOGIN_PARAMETERS are of the form NAME=VALUE")
        # Otherwise an issuer could claim the roles that a rule gives to groups of a second issuer.
        is_one_of_many = len(self.oidc_issuers) > 1
        rules = map(RoleRule.parse, self.oidc_roles)
        if is_one_of_many and not all(r.names("iss") & {*self.oidc_issuers} for r in rules):
            raise ValueError("each of CONCORD_OIDC_ROLES needs an issuer: ROLE:iss=ISSUER&…")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("CONCORD_TLS_CERT and CONCORD_TLS_KEY need each other")
        if self.tls_client_ca and not self.tls_cert:
            raise ValueError("CONCORD_TLS_CLIENT_CA needs CONCORD_TLS_CERT")
        return self

    @property
    def login_issuer(self) -> str:
        """The provider by which people log in to the console; "" if there is none."""
        only = self.oidc_issuers[0] if len(self.oidc_issuers) == 1 else ""
        return self.oidc_login_issuer or only

    @property
    def login_parameters(self) -> dict[str, str]:
        """The further parameters of the log-in, by name."""
        return {name: value for name, _, value in self._login_pairs}

    @property
    def _login_pairs(self) -> list[tuple[str, str, str]]:
        return [each.partition("=") for each in self.oidc_login_parameters]

    @property
    def _names_callers(self) -> bool:
        return bool(self.oidc_issuers or self.tls_client_ca or self.anonymous_role)

    @property
    def certificates(self) -> dict[str, Path]:
        """The files with certificates of the node, by environment variable."""
        named = {"CONCORD_TLS_CERT": self.tls_cert, "CONCORD_TLS_CLIENT_CA": self.tls_client_ca}
        return {name: path for name, path in named.items() if path is not None}

    @property
    def is_open(self) -> bool:
        """Whether every caller has every permission, after the default is applied."""
        if self.open is not None:
            return self.open
        return is_loopback(self.host) and not self._names_callers

    @property
    def token_algorithms(self) -> tuple[str, ...]:
        """The accepted signature algorithms of tokens, after the default is applied."""
        return self.oidc_algorithms or ("RS256", "PS256", "ES256")

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The host names at which clients reach the node, in lower case; `*` matches every name."""
        public = () if self.public_url is None else (URL(self.public_url).raw_host or "",)
        return frozenset(name.lower() for name in (self.host, *public, *self.hosts))

    @cached_property
    def public_origin(self) -> str | None:
        """The origin of pages at the public URL, in the form of browsers."""
        return None if self.public_url is None else str(URL(self.public_url).origin())

    @cached_property
    def encryption_keys(self) -> tuple[EncryptionKey, ...]:
        """The keys in the setting; empty if the setting is unset."""
        return () if self.encryption_key is None else parse_keys(key_texts(self.encryption_key))

    @property
    def database_connections(self) -> int:
        """The most PostgreSQL connections of a process, including the watching connection."""
        purposes = self.database_pool_size, self.streams, FEED_CONNECTIONS
        return sum(purposes) + self.database_task_connections + 1

    @property
    def allows_private_addresses(self) -> bool:
        """Whether sinks and sources may be at private addresses, after the default is applied."""
        if self.allow_private_addresses is not None:
            return self.allow_private_addresses
        public = None if self.public_url is None else urlsplit(self.public_url).hostname
        return is_loopback(self.host) and (public is None or is_loopback(public))

    @property
    def staleness_seconds(self) -> float:
        """The longest time that a read may miss a write of a process on a different host."""
        if self.cache_staleness_seconds is not None:
            return self.cache_staleness_seconds
        return _EMBEDDED_STALENESS_SECONDS if self.database_url is None else 0.0

    def masked(self) -> dict[str, object]:
        """The settings by name, ready for JSON, with stars in place of secrets; limits last."""
        shown = self.model_dump(mode="json")
        return {name: shown[name] for name in shown if name not in Limits.model_fields} | shown
