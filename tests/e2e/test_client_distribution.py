"""The client is a distribution of its own, which programs use in environments without Concord."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.nodes import node_at, running
from tests.pages import ROOT, blocks

CLIENT = ROOT / "deploy" / "client"
PROGRAM = Path(__file__).with_name("clientuser.py")
ADDRESS = "http://127.0.0.1:8080"
# What aiohttp and pydantic bring, and orjson.
ADMITTED = {
    *("aiohappyeyeballs", "aiohttp", "aiosignal", "annotated-types", "attrs", "frozenlist", "idna"),
    *("multidict", "orjson", "propcache", "pydantic", "pydantic-core", "typing-extensions"),
    *("typing-inspection", "yarl", "concord-client"),
}
_SECONDS = 300

pytestmark = pytest.mark.timeout(900)


def call(arguments: Sequence[str | Path], directory: Path) -> str:
    done = subprocess.run(
        arguments,
        cwd=directory,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def wheels() -> Path:
    """A directory of the user's cache with the wheels that the client depends on."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    kept = cache / f"client-wheels-{sys.version_info.major}.{sys.version_info.minor}"
    if not (kept / "complete").exists():
        kept.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
        fetching = subprocess.run(
            [*pip, "--dest", kept, *dependencies()], capture_output=True, text=True
        )
        if fetching.returncode:
            pytest.skip(f"pip cannot fetch what the client needs: {fetching.stderr[-300:]}")
        (kept / "complete").touch()
    return kept


def dependencies() -> list[str]:
    [listed] = re.findall(
        r"^dependencies = \[\n(.*?)^\]", (CLIENT / "pyproject.toml").read_text(), re.M | re.S
    )
    return re.findall(r'"(.+)"', listed)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment in which the wheel of the client was installed."""
    directory = tmp_path_factory.mktemp("client")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    call([*build, "--directory", directory], CLIENT)
    [wheel] = directory.glob("*.whl")
    call([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], directory)
    python = directory / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    call([*pip, "--no-index", "--find-links", wheels(), wheel], directory)
    return python


def test_the_environment_has_what_aiohttp_and_pydantic_need_and_no_more(
    python: Path, tmp_path: Path
) -> None:
    listing = [sys.executable, "-m", "pip", "--python", python, "list", "--format", "freeze"]
    lines = call(listing, tmp_path).splitlines()
    names = {line.partition("==")[0].replace("_", "-") for line in lines if "==" in line}
    assert {"concord-client", "aiohttp", "pydantic"} <= names <= ADMITTED


async def test_a_program_reads_writes_and_follows_a_node(python: Path, tmp_path: Path) -> None:
    node = node_at(tmp_path)
    [sync, async_] = blocks(CLIENT / "README.md")
    async with running(node):
        said = await asyncio.to_thread(call, [python, "-I", PROGRAM, node.url], tmp_path)
        assert said.splitlines() == [
            "refused: mismatched_epoch",
            "followed: /messagegroups/shop /messagegroups/shop/messages/order.placed "
            "/messagegroups/shop/messages/order.placed/versions/1",
            "found: /messagegroups/shop/messages/order.placed",
            "read: order.placed Placed",
            "followed again: True",
            "hint: Install the library with: pip install 'concord-client[signatures]'",
        ]
        shown = ["'/messagegroups/shop/messages/order.placed'", "shop The shop's messages"]
        for block, text in zip((sync, async_), shown, strict=True):
            program = block.text.replace(ADDRESS, node.url)
            assert text in await asyncio.to_thread(call, [python, "-I", "-c", program], tmp_path)


def test_the_program_satisfies_mypy_strictly(python: Path, tmp_path: Path) -> None:
    mypy = [sys.executable, "-P", "-m", "mypy", "--strict", "--python-executable", python]
    cache = ["--cache-dir", tmp_path / "cache", "--config-file", ""]
    # Beside it, mypy would find the sources of the client.
    call([*mypy, *cache, shutil.copy(PROGRAM, tmp_path)], tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        PROGRAM.read_text().replace('client.create(GROUP, {"name"', "client.create(3, {3")
    )
    with pytest.raises(AssertionError, match="arg-type"):
        call([*mypy, *cache, wrong], tmp_path)
