"""The chart of Helm, rendered by the real helm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY

CHART = DEPLOY / "kubernetes" / "concord"
TEMPLATES = sorted((CHART / "templates").iterdir())
# helm that go built believes in an old Kubernetes.
KUBERNETES = "1.30.0"
INSTALL = "go install helm.sh/helm/v3/cmd/helm@v3.22.0"
RELEASE = "hub"
_LEAST = ("publicUrl=https://hub.example.com",)

Object = Mapping[str, Any]


def helm(*arguments: str) -> str:
    """The output of helm; the test is skipped without it."""
    path = shutil.which("helm")
    if path is None:
        pytest.skip(f"helm is missing: install it, for example with {INSTALL}")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def options(*settings: str) -> Sequence[str]:
    """The options that set values of the chart."""
    return [part for each in (*_LEAST, *settings) for part in ("--set", each)]


@cache
def rendered(*settings: str) -> dict[str, Object]:
    """The objects of a release by kind and name."""
    text = helm(
        "template",
        RELEASE,
        str(CHART),
        "--kube-version",
        KUBERNETES,
        "--set-file",
        f"prometheusRule.rules={DEPLOY / 'monitoring' / 'rules.yml'}",
        *options(*settings),
    )
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}
