"""The file with the keys: made once, replaced as a whole, and read by its user only."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from catalog.keys.keyring import EncryptionKey, SecretPlace
from catalog.settings import Settings
from catalog.settings.keyfile import KEY_FILE, KeyFile, KeysUnusable, key_ring

PLACE = SecretPlace("subscriptions", "a", "sinkcredential")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A node whose key no setting names."""
    monkeypatch.delenv("CONCORD_ENCRYPTION_KEY")
    return Settings(data_dir=tmp_path / "new" / "node")


@pytest.fixture
def path(settings: Settings) -> Path:
    """The file, which is made already."""
    assert key_ring(settings).current_id
    return settings.data_dir / KEY_FILE


def test_the_first_start_makes_a_key_that_later_starts_use(settings: Settings) -> None:
    sealed = key_ring(settings).seal(b"secret", PLACE)
    assert key_ring(settings).open(sealed, PLACE) == b"secret"
    path = settings.data_dir / KEY_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings.data_dir.stat().st_mode & 0o777 == 0o700
    assert os.listdir(settings.data_dir) == [KEY_FILE]


def _key_of(start: object, directory: Path) -> str:
    start.wait()  # type: ignore[attr-defined]
    return KeyFile(directory / KEY_FILE).read()[0].text


def test_processes_that_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    count = 4
    with (
        multiprocessing.Manager() as manager,
        multiprocessing.get_context("spawn").Pool(count) as pool,
    ):
        for attempt in range(10):
            barrier = manager.Barrier(count)
            directory = tmp_path / str(attempt)
            keys = pool.starmap(_key_of, [(barrier, directory)] * count)
            assert len(set(keys)) == 1
            assert os.listdir(directory) == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610])
def test_a_file_that_others_may_use_is_refused(settings: Settings, path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeysUnusable, match=f"chmod 600 {path}"):
        key_ring(settings).current_id  # noqa: B018
    path.chmod(0o600)
    assert key_ring(settings).current_id


def test_a_running_process_refuses_a_file_that_is_opened_to_others(
    settings: Settings, path: Path
) -> None:
    keys = key_ring(settings)
    sealed = keys.seal(b"secret", PLACE)
    path.chmod(0o644)
    with pytest.raises(KeysUnusable, match="chmod 600"):
        keys.seal(b"secret", PLACE)
    assert keys.open(sealed, PLACE) == b"secret"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(settings: Settings, path: Path) -> None:
    os.chown(path, 65533, -1)
    with pytest.raises(KeysUnusable, match="belongs to the user 65533"):
        key_ring(settings).current_id  # noqa: B018


def test_a_link_in_place_of_the_file_is_not_followed(settings: Settings, path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(KeysUnusable, match="cannot use"):
        key_ring(settings).current_id  # noqa: B018


@pytest.mark.parametrize("text", ["", "# only this\n", "s3cret\n", "s3cret" * 30_000])
def test_a_file_without_keys_is_refused_and_kept(settings: Settings, path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(KeysUnusable, match="does not hold keys") as caught:
        key_ring(settings).current_id  # noqa: B018
    assert "s3cret" not in str(caught.value)
    assert path.read_text() == text


def test_a_file_that_vanishes_is_not_made_anew(settings: Settings, path: Path) -> None:
    keys = key_ring(settings)
    sealed = keys.seal(b"secret", PLACE)
    path.unlink()
    with pytest.raises(KeysUnusable, match="put it back"):
        keys.seal(b"secret", PLACE)
    assert not path.exists()
    assert keys.open(sealed, PLACE) == b"secret"


def test_a_directory_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeysUnusable, match="CONCORD_ENCRYPTION_KEY"):
        KeyFile(tmp_path / "file" / "node" / KEY_FILE).read()


def test_a_replaced_file_is_read_again(settings: Settings, path: Path) -> None:
    keys = key_ring(settings)
    old, new = KeyFile(path).read()[0], EncryptionKey.new()
    sealed = keys.seal(b"secret", PLACE)
    KeyFile(path).replace([new, old])
    assert keys.current_id == new.id
    assert keys.open(sealed, PLACE) == b"secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [KEY_FILE]


def test_the_setting_comes_before_the_file(settings: Settings, path: Path) -> None:
    new, old = EncryptionKey.new(), EncryptionKey.new()
    named = Settings(
        data_dir=settings.data_dir, encryption_key=SecretStr(f"{new.text}, {old.text}")
    )
    assert key_ring(named).current_id == new.id
    assert named.encryption_keys == (new, old)
    assert new.text not in f"{named!r} {named.masked()}"


@pytest.mark.parametrize("text", ["s3cret", ",", "s3cret,s3cret"])
def test_a_setting_that_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(encryption_key=SecretStr(text))
    assert "concord encryption key" in str(caught.value)
    assert "s3cret" not in str(caught.value)
