"""Every command of the pages runs as it stands there, in a copy of this repository."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.nodes import free_port
from tests.pages import FOLLOWED, ROOT, Block, Command, blocks, commands, name_of

# The pages name the addresses of a reader's own machine, where these ports are free.
PORTS = ("8080", "8081", "8082")
COPIED = ("catalog", "examples", "replication", "tests", "pyproject.toml", ".gitignore")
SHELL = ("bash", "-euo", "pipefail", "-c")
# They go on until they are interrupted, as the reader leaves them in a terminal of their own.
LASTING = {"concord serve": "Concord serves", "concord events": "Following"}
# A replica has what its source has a moment later, and what a revoked key has signed is signed
# anew; a reader who is too early looks again.
EVENTUAL = ("concord get", "concord link list", "concord signing verify")
EVENTUAL_SECONDS = 30
# A first start, and Spark, on a busy machine.
START_SECONDS = 180
LONGEST_SECONDS = 600
_VARIABLE = re.compile(r"^([A-Z_]+)=", re.MULTILINE)
# Variables that are for one command: "A=1 B=$(cat file) command".
_GIVEN = re.compile(r"(?:[A-Z_]+=(?:\$\([^)]*\)|(?!\$\()\S)+ +(?=[^ #]))*")

pytestmark = [
    pytest.mark.timeout(1200),
    *(
        pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")
        for name in ("bash", "curl", "git")
    ),
]


@dataclass(slots=True)
class Lasting:
    """A command in a terminal of its own, whose output goes to a file."""

    command: Command
    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"{self.command.text}: {self.log.read_text()}"
            time.sleep(0.05)  # between two looks at what it prints

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(30) == 0, self.log.read_text()


@dataclass(slots=True)
class Reader:
    """Types the commands of a page, one after the other."""

    directory: Path
    environment: dict[str, str]
    ports: dict[str, str]
    variables: set[str] = field(default_factory=set)
    lasting: list[Lasting] = field(default_factory=list)

    def follow(self, page: Path) -> None:
        for block in blocks(page):
            if block.language in ("sh", "console") and not block.not_run:
                for command in commands(block):
                    self.type(block, command)

    def type(self, block: Block, command: Command) -> None:
        where = f"{name_of(block.page)}:{command.line}: {command.text}"
        for beginning, greeting in LASTING.items():
            goes_on = command.exit_code == 0
            if goes_on and _GIVEN.sub("", command.text, count=1).startswith(beginning):
                self.leave_running(command, greeting)
                return
        code, output = self.run(command)
        if command.text.startswith(EVENTUAL):
            deadline = time.monotonic() + EVENTUAL_SECONDS
            while not _is_as_told(command, code, output) and time.monotonic() < deadline:
                time.sleep(0.5)  # before the reader looks again
                code, output = self.run(command)
        assert _is_as_told(command, code, output), f"{where}\nended with {code}:\n{output}"

    def run(self, command: Command) -> tuple[int, str]:
        """Run a command to its end, at a terminal whose user says yes to any question."""
        kept = shlex.quote(f"{self.environment['HOME']}/variables")
        script = f"[ ! -e {kept} ] || . {kept}\n{self.with_ports(command.text)}\n"
        if not _GIVEN.match(command.text)[0]:
            self.variables |= {*_VARIABLE.findall(command.text)}
        if self.variables:
            script += f"declare -p {' '.join(sorted(self.variables))} > {kept}\n"
        user, terminal = pty.openpty()
        try:
            os.write(user, b"y\n")
            done = subprocess.run(
                [*SHELL, script],
                cwd=self.directory,
                env=self.environment,
                stdin=terminal,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_SECONDS,
            )
        finally:
            os.close(user)
            os.close(terminal)
        return done.returncode, self.as_written(done.stdout.decode())

    def leave_running(self, command: Command, greeting: str) -> None:
        log = Path(self.environment["HOME"], f"terminal-{len(self.lasting)}.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*SHELL, _GIVEN.sub(r"\g<0>exec ", self.with_ports(command.text), count=1)],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.lasting.append(Lasting(command, process, log))
        self.lasting[-1].wait_for(greeting)

    def with_ports(self, text: str) -> str:
        """The text with ports that are free here."""
        return re.sub("|".join(self.ports), lambda found: self.ports[found[0]], text)

    def as_written(self, output: str) -> str:
        """Output with the ports that the page has."""
        written = {port: name for name, port in self.ports.items()}
        return re.sub("|".join(written), lambda found: written[found[0]], output)


def _is_as_told(command: Command, code: int, output: str) -> bool:
    """Whether a command ended as its page says, and said what the page shows, in that order.

    Columns of a table are as wide as their values, so white space counts as one blank.
    """
    output, at = " ".join(output.split()), 0
    for text in (" ".join(each.split()) for each in command.said):
        at = output.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return code == command.exit_code


@contextlib.contextmanager
def reading_in(directory: Path, home: Path) -> Iterator[Reader]:
    """A reader with a home of their own and the commands of this environment."""
    home.mkdir()
    # curl says by its exit code whether the node refused a request.
    (home / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    ports = {name: str(free_port()) for name in PORTS}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONCORD_")}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(home.parent / "copy"),
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "COLUMNS": "200",
        # For seconds of work, Java's second compiler costs more than it gains.
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
        "CONCORD_PORT": ports["8080"],
        "CONCORD_URL": f"http://127.0.0.1:{ports['8080']}",
    }
    reader = Reader(directory=directory, environment=environment, ports=ports)
    try:
        yield reader
        for each in reversed(reader.lasting):
            each.interrupt()
    finally:
        for each in reader.lasting:
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of this repository, committed, with the environment that tests run in.

    It has what Python has compiled, so that no command compiles it again.
    """
    made = tmp_path / "copy"
    made.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, made / name)
        else:
            shutil.copy(source, made)
    _commit(made)
    (made / ".venv").symlink_to(sys.prefix)
    return made


def _commit(directory: Path) -> None:
    """Make a repository of a directory, whose only commit is what it has, here and upstream."""
    author = ("-c", "user.name=reader", "-c", "user.email=reader@example.com")
    for command in (
        ("init", "--quiet"),
        ("add", "--all"),
        (*author, "commit", "--quiet", "--message", "All"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
    ):
        subprocess.run(["git", *command], cwd=directory, check=True)


(
    README,
    CONTRIBUTING,
    EXAMPLE,
    DIALECTS,
    MESSAGES,
    AS_CODE,
    ASYNCAPI,
    JOINING,
    RECOVERY,
    SUBSCRIPTIONS,
    SECURING,
    SIGNING,
    HANDOVER,
    MIGRATION,
    FEDERATION,
) = (ROOT / name for name in FOLLOWED)


def test_a_reader_can_do_all_that_the_readme_says(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(README)
        listening = reader.lasting[-1]
        assert listening.command.text.startswith("concord events")
        listening.wait_for("/messagegroups/DE.DWD.Weather")


def test_a_contributor_can_do_all_that_they_are_told(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(CONTRIBUTING)


def test_a_team_can_work_as_the_example_says(copy: Path) -> None:
    example = copy.parent / "example"
    shutil.copytree(copy / EXAMPLE.parent.relative_to(ROOT), example)
    _commit(example)
    with reading_in(example, copy.parent / "home") as reader:
        reader.leave_running(Command(line=0, text="concord serve"), LASTING["concord serve"])
        reader.follow(EXAMPLE)


@pytest.mark.parametrize(
    "page", [DIALECTS, MESSAGES, AS_CODE, ASYNCAPI], ids=lambda page: page.stem
)
def test_a_publisher_can_do_all_that_a_page_says(copy: Path, page: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.leave_running(Command(line=0, text="concord serve"), LASTING["concord serve"])
        reader.follow(page)


def test_an_operator_can_join_two_catalogs(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(JOINING)


def test_an_operator_can_recover_a_lost_catalog(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(RECOVERY)


def test_an_operator_can_give_roles_in_groups(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(SECURING)


def test_an_operator_can_sign_and_trust(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(SIGNING)


def test_an_operator_can_hand_a_group_over(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(HANDOVER)


def test_a_kafka_team_can_move_from_another_registry(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.follow(MIGRATION)


def test_three_companies_can_share_what_they_want_to(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        # Each command names the node that it is for.
        del reader.environment["CONCORD_URL"], reader.environment["CONCORD_PORT"]
        reader.follow(FEDERATION)
        listening = reader.lasting[-1]
        listening.wait_for("/schemagroups/public.orders")
        assert "internal" not in listening.log.read_text()


def test_a_subscriber_can_do_what_their_page_says(copy: Path) -> None:
    with reading_in(copy, copy.parent / "home") as reader:
        reader.leave_running(Command(line=0, text="concord serve"), LASTING["concord serve"])
        reader.follow(SUBSCRIPTIONS)
