"""Reads the documents of a git revision."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from catalog.commands.console import CommandError
from catalog.commands.documentpaths import SUFFIXES, document_paths
from catalog.documents.serialization import LARGEST_BYTES, STDIN

_LONGEST_SECONDS = 60


class RevisionError(CommandError):
    """The documents of a revision cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blob:
    """A file of a revision: the path from the root of the repository, and the id of the content."""

    path: str
    id: str
    size: int


@contextlib.contextmanager
def documents_at(revision: str, arguments: Sequence[str]) -> Iterator[list[Path]]:
    """Copy the files that `arguments` named at a revision to a temporary directory.

    Args:
        revision: the name of a commit. In a repository without commits, HEAD has no documents.
        arguments: paths as in `document_paths`, relative to the working directory. The standard
            input is left out, and paths that do not exist at the revision.

    Raises:
        RevisionError: the revision, the repository or git does not exist, or git fails.
    """
    named = [argument for argument in arguments if Path(argument) != STDIN]
    found = _git("rev-parse", "--show-toplevel", cwd=_folder(named))
    top = Path(os.fsdecode(found.rstrip(b"\n"))).resolve()
    commit = _commit(top, revision)
    wanted = [_within(top, argument) for argument in named]
    with TemporaryDirectory(prefix="concord-lint-") as folder:
        if commit:
            _check_out(_blobs(top, commit, wanted), top, Path(folder))
        paths = document_paths([str(Path(folder, each)) for each in wanted], allow_empty=True)
        yield [path for path in paths if path.is_file()]


def _folder(arguments: Iterable[str]) -> Path:
    """A folder of the repository of the arguments."""
    for argument in arguments:
        folder = Path(argument) if Path(argument).is_dir() else Path(argument).parent
        if folder.is_dir():
            return folder
    return Path.cwd()


def _commit(top: Path, revision: str) -> str:
    # A revision that begins with a hyphen must not be an option of git.
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        found = _git(*asked, cwd=top)
    except RevisionError as error:
        if revision == "HEAD" and not _git("rev-list", "--all", "--max-count=1", cwd=top):
            return ""
        raise RevisionError(
            f"git knows no revision {revision}.",
            "Fetch it; a clone in a pipeline may be shallow.",
        ) from error
    return found.decode().strip()


def _within(top: Path, argument: str) -> str:
    """An argument relative to the root of the repository."""
    path = os.path.relpath(os.path.join(Path.cwd().resolve(), argument), top)
    if path.startswith(os.pardir):
        raise RevisionError(f"{argument} is outside of the repository in {top}.")
    return path


def _blobs(top: Path, commit: str, wanted: Iterable[str]) -> Iterator[_Blob]:
    """The files that an argument names, and the files with a name of a document."""
    named = set(wanted)
    listed = _git("ls-tree", "-r", "-z", "--long", "--full-tree", commit, cwd=top)
    for row in listed.split(b"\0"):
        metadata, _, name = row.partition(b"\t")
        path = os.fsdecode(name)
        if path in named or path.lower().endswith(SUFFIXES):
            mode, kind, id, size = metadata.decode().split()
            # Git also has symbolic links (mode 120000) as blobs.
            is_file = kind == "blob" and mode.startswith("100")
            if is_file and int(size) <= LARGEST_BYTES:
                yield _Blob(path=path, id=id, size=int(size))


def _check_out(blobs: Iterable[_Blob], top: Path, folder: Path) -> None:
    found = list(blobs)
    ids = "".join(f"{blob.id}\n" for blob in found).encode()
    content = _git("cat-file", "--batch", cwd=top, stdin=ids)
    at = 0
    # An object is a line with its id, the content, and a line feed (git-cat-file, "BATCH OUTPUT").
    for blob in found:
        at = content.index(b"\n", at) + 1
        path = folder / blob.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[at : at + blob.size])
        at += blob.size + 1


def _git(*arguments: str, cwd: Path, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd,
            input=stdin,
            capture_output=True,
            check=True,
            timeout=_LONGEST_SECONDS,
        )
    except FileNotFoundError as error:
        raise RevisionError("git is not installed.", "--against with a URL needs none.") from error
    except subprocess.TimeoutExpired as error:
        raise RevisionError(f"git took longer than {_LONGEST_SECONDS} seconds.") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or "it gave no reason"
        raise RevisionError(f"git refused: {reason}.") from error
    return done.stdout
