"""The wheel says that both packages have types."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_a_marker_of_types_in_each_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(
        [*build, "--directory", str(tmp_path)], cwd=ROOT, check=True, capture_output=True
    )
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert {"catalog/py.typed", "replication/py.typed"} <= {*opened.namelist()}
