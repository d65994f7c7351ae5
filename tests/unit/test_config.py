"""Settings have defaults, are checked, and keep their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from catalog.settings import Settings


@pytest.mark.parametrize(
    ("host", "public_url", "said", "allowed"),
    [
        ("127.0.0.1", None, None, True),
        ("::1", None, None, True),
        ("localhost", None, None, True),
        ("0.0.0.0", None, None, False),
        ("catalog.example", None, None, False),
        ("127.0.0.1", None, False, False),
        ("0.0.0.0", None, True, True),
        ("127.0.0.1", "http://localhost:8080", None, True),
        ("127.0.0.1", "http://[::1]:8080/x", None, True),
        ("127.0.0.1", "https://catalog.example", None, False),
        ("127.0.0.1", "http://192.168.1.5:8080", None, False),
        ("127.0.0.1", "http://catalog.internal", None, False),
        ("0.0.0.0", "http://localhost:8080", None, False),
        ("127.0.0.1", "https://catalog.example", True, True),
    ],
)
def test_private_addresses_are_allowed_if_only_this_machine_reaches_the_node(
    host: str, public_url: str | None, said: bool | None, allowed: bool
) -> None:
    settings = Settings(host=host, public_url=public_url, allow_private_addresses=said)
    assert settings.allows_private_addresses is allowed


@pytest.mark.parametrize(
    "url", ["catalog", "/x", "ftp://a", "http://", "http://a/?b", "http://u@a"]
)
def test_a_public_url_that_others_cannot_use_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        Settings(public_url=url)


def test_a_public_url_has_no_slash_at_its_end() -> None:
    assert Settings(public_url="https://a.example/b/").public_url == "https://a.example/b"


def test_masked_settings_show_everything_but_secrets() -> None:
    given = {
        "port": 1,
        "database_url": "postgresql://u:geheim@h/d",
        "oidc_issuers": "https://id.example",
        "oidc_audiences": "https://catalog.example",
        "oidc_login_client": "catalog",
        "oidc_login_secret": "geheim",
    }
    masked = Settings.model_validate(given).masked()
    assert masked["port"] == 1
    assert "geheim" not in str(masked)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_PORT", "9")
    monkeypatch.setenv("CONCORD_HOST", "")
    assert (Settings().port, Settings().host) == (9, "127.0.0.1")


@pytest.mark.parametrize("home", ["", "relative"])
def test_an_unusable_xdg_data_home_is_ignored(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", home)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Settings().data_dir == Path.home() / ".local" / "share" / "concord"


def test_root_has_a_directory_of_the_system_unless_it_used_its_own_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert Settings().data_dir == Path("/var/lib/concord")
    own = tmp_path / ".local" / "share" / "concord"
    own.mkdir(parents=True)
    assert Settings().data_dir == own


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1


@pytest.mark.parametrize(
    "origin", ["page", "https://", "https://a.example/", "https://a.example/b"]
)
def test_an_origin_that_no_browser_would_send_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError):
        Settings(cors_origins=(origin,))


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_CORS_ORIGINS", "https://a.example, http://b.example:81 ,")
    monkeypatch.setenv("CONCORD_REGISTRIES", "https://r.example/x/")
    settings = Settings()
    assert settings.cors_origins == ("https://a.example", "http://b.example:81")
    assert settings.registries == ("https://r.example/x",)


@pytest.mark.parametrize("id", ["", "a/b", "-a", "a" * 129, "a b"])
def test_a_registry_id_that_is_no_id_is_refused(id: str) -> None:
    with pytest.raises(ValidationError):
        Settings(registry_id=id)


@pytest.mark.parametrize("urls", ["nowhere", "https://a.example,b"])
def test_a_registry_that_is_no_url_is_refused(urls: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"registries": urls})
