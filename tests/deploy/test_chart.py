"""The chart as helm renders it, held to the schemas of Kubernetes and of the operators."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import jsonschema_rs
import pytest

from tests.deploy.chart import CHART, KUBERNETES, Object, helm, options, rendered
from tests.deploy.files import MONITORING, read_yaml

CRDS = "CONCORD_TEST_CRDS"
_OPERATORS = ("monitoring.coreos.com/", "sparkoperator.k8s.io/")
_CATALOGS = ("reconciliation.catalogs.hub=http://hub:8080", "reconciliation.catalogs.eu=https://eu")
_TOKENS = tuple(
    f"reconciliation.tokens.{name}.{part}={value}"
    for name in ("hub", "eu")
    for part, value in (("secret", "concord-reconcile"), ("key", name))
)
_CLAIM = "reconciliation.reports.persistentVolumeClaim.claimName=reports"
RELEASES: dict[str, Sequence[str]] = {
    "least": ("open=true",),
    "cronjob": ("open=true", "reconciliation.mode=cronjob", *_CATALOGS),
    "spark": ("open=true", "reconciliation.mode=spark", *_CATALOGS),
    "access": (
        *("oidc.issuers={https://id.example}", "oidc.audiences={https://hub.example.com}"),
        *("oidc.roles={reader:sub=*,admin:groups=admins}", "trust.secret=authorities"),
        *("tls.secret=hub-tls", "tls.clientCa.secret=clients"),
        *("tls.clientCa.roles={replicator:cn=eu.example}", "podMonitor.enabled=true"),
        *("podMonitor.token.secret=concord-metrics", *_CATALOGS, "reconciliation.mode=cronjob"),
        *_TOKENS,
        *("links[0].id=eu", "links[0].source=https://eu", "links[0].token.secret=concord-links"),
        *("links[0].token.key=eu", "links[0].arguments={--scope=/schemagroups/a b}"),
        *("links[1].id=us", "links[1].source=https://us"),
    ),
    "all": (
        *("reconciliation.mode=spark", *_CATALOGS, "reconciliation.arguments={--repair}"),
        *("reconciliation.reports.emptyDir=null", _CLAIM),
        *("ingress.enabled=true", "ingress.host=hub.example.com", "ingress.className=nginx"),
        *("ingress.tlsSecret=tls", "ingress.annotations.a=b", "service.annotations.a=b"),
        *("podMonitor.enabled=true", "podMonitor.labels.a=b", "prometheusRule.labels.a=b"),
        *("image.pullSecrets[0].name=pull", "settings.CONCORD_LOG_DAYS=60", "nodeSelector.a=b"),
        *("tolerations[0].key=a", "tolerations[0].operator=Exists", "podAnnotations.a=b"),
        *("secretSettings[0].name=CONCORD_KAFKA_URL", "secretSettings[0].secret=kafka"),
        *("secretSettings[0].key=url", "replicas=1", "migration.enabled=false", *_TOKENS),
        *("anonymousRole=reader", "backup.enabled=true", "backup.claim=backups"),
    ),
}
each_release = pytest.mark.parametrize("settings", RELEASES.values(), ids=RELEASES.keys())


@each_release
def test_helm_finds_nothing_wrong(settings: Sequence[str]) -> None:
    helm("lint", "--strict", str(CHART), "--kube-version", KUBERNETES, *options(*settings))


@each_release
def test_objects_fit_the_schemas_of_kubernetes(settings: Sequence[str]) -> None:
    validate = pytest.importorskip(
        "kubernetes_validate", reason="install it with: pip install kubernetes-validate"
    ).validate
    for each in rendered(*settings).values():
        if not each["apiVersion"].startswith(_OPERATORS):
            validate(each, KUBERNETES.rpartition(".")[0], strict=True)


@each_release
def test_objects_of_operators_fit_their_definitions(settings: Sequence[str]) -> None:
    definitions = dict(_definitions())
    for name, each in rendered(*settings).items():
        schema = definitions.get((each["apiVersion"], each["kind"]))
        if schema is not None:
            errors = [*jsonschema_rs.validator_for(schema).iter_errors(each)]
            assert errors == [], name


def _definitions() -> Iterator[tuple[tuple[str, str], Object]]:
    """The schema of each kind that the files of a directory define."""
    directory = os.environ.get(CRDS)
    if directory is None:
        pytest.skip(f"set {CRDS} to a directory with the definitions of the operators' kinds")
    for path in Path(directory).glob("*.yaml"):
        spec = read_yaml(path)["spec"]
        for version in spec["versions"]:
            kind = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            yield kind, version["schema"]["openAPIV3Schema"]


def test_a_node_has_probes_no_privileges_and_secrets_by_reference() -> None:
    objects = rendered("open=true")
    pod = objects["Deployment/hub-concord"]["spec"]["template"]["spec"]
    [node] = pod["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= node.keys()
    assert pod["securityContext"]["runAsNonRoot"]
    assert node["securityContext"]["readOnlyRootFilesystem"]
    assert not pod["automountServiceAccountToken"]
    variables = {each["name"]: each for each in node["env"]}
    for name in ("CONCORD_DATABASE_URL", "CONCORD_ENCRYPTION_KEY"):
        assert variables[name].keys() == {"name", "valueFrom"}
    assert variables["CONCORD_OPEN"]["value"] == "true"
    assert variables["CONCORD_PUBLIC_URL"]["value"] == "https://hub.example.com"
    assert not [name for name in objects if name.startswith("Secret/")]


def test_credentials_are_named_and_never_in_an_object() -> None:
    objects = rendered(*RELEASES["access"])
    pod = objects["Deployment/hub-concord"]["spec"]["template"]["spec"]
    mounted = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    secrets = {each["name"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    variables = _variables(pod)
    for name, secret, variable in (
        ("tls", "hub-tls", "CONCORD_TLS_CERT"),
        ("clients", "clients", "CONCORD_TLS_CLIENT_CA"),
        ("trust", "authorities", "SSL_CERT_FILE"),
    ):
        assert secrets[name]["secretName"] == secret
        assert variables[variable]["value"].startswith(f"{mounted[name]}/")
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert variables["CONCORD_OIDC_ROLES"]["value"] == "reader:sub=*,admin:groups=admins"

    jobs = objects["CronJob/hub-concord-reconcile"]["spec"]["jobTemplate"]["spec"]
    linking = objects["Job/hub-concord-links"]["spec"]["template"]["spec"]
    endpoint = objects["PodMonitor/hub-concord"]["spec"]["podMetricsEndpoints"][0]
    assert endpoint["authorization"]["credentials"] == {"name": "concord-metrics", "key": "token"}
    for found, variable, secret, key in (
        (jobs["template"]["spec"], "CATALOG_TOKEN_EU", "concord-reconcile", "eu"),
        (linking, "LINK_TOKEN_0", "concord-links", "eu"),
    ):
        reference = {"secretKeyRef": {"name": secret, "key": key}}
        assert _variables(found)[variable]["valueFrom"] == reference
    assert "--token-from=eu=CATALOG_TOKEN_EU" in jobs["template"]["spec"]["containers"][0]["args"]
    driver = rendered(*RELEASES["all"])["ScheduledSparkApplication/hub-concord-reconcile"]["spec"][
        "template"
    ]["driver"]
    assert driver["envSecretKeyRefs"]["CATALOG_TOKEN_EU"]["name"] == "concord-reconcile"


def _variables(pod: Object) -> dict[str, Object]:
    [container] = pod["containers"]
    return {each["name"]: each for each in container["env"]}


def test_links_are_added_by_a_script_that_a_shell_reads() -> None:
    linking = rendered(*RELEASES["access"])["Job/hub-concord-links"]["spec"]["template"]["spec"]
    [script] = linking["containers"][0]["args"]
    subprocess.run(["sh", "-n", "-c", script], check=True)
    shown, added = _commands(script)
    assert shown == ["concord", "link", "show", "eu"]
    assert added[-4:] == ["eu", "--token-from", "LINK_TOKEN_0", "--scope=/schemagroups/a b"]


def _commands(script: str) -> tuple[list[str], list[str]]:
    """The words of the first two commands about links."""
    lines = [line.strip() for line in script.splitlines() if "concord link" in line]
    shown, added = (shlex.split(line.partition(" >/dev/null")[0]) for line in lines[:2])
    return shown, added


@pytest.mark.parametrize(
    "settings", [(), ("open=true", "anonymousRole=reader")], ids=["nobody", "everybody and some"]
)
def test_a_release_says_who_is_known(settings: Sequence[str]) -> None:
    helm("version")
    with pytest.raises(AssertionError, match="nobody"):
        helm("template", "hub", str(CHART), "--kube-version", KUBERNETES, *options(*settings))


def test_selectors_find_the_pods_of_the_node_and_no_others() -> None:
    objects = rendered(*RELEASES["cronjob"])
    node = objects["Deployment/hub-concord"]["spec"]["template"]["metadata"]["labels"]
    others = (
        objects["Job/hub-concord-migration"]["spec"]["template"],
        objects["CronJob/hub-concord-reconcile"]["spec"]["jobTemplate"]["spec"]["template"],
    )
    for selector in (
        objects["Deployment/hub-concord"]["spec"]["selector"]["matchLabels"],
        objects["Service/hub-concord"]["spec"]["selector"],
        objects["PodDisruptionBudget/hub-concord"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy/hub-concord"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= node.items()
        assert not [
            each for each in others if selector.items() <= each["metadata"]["labels"].items()
        ]


def test_a_report_is_written_where_all_processes_of_spark_can() -> None:
    name = "ScheduledSparkApplication/hub-concord-reconcile"
    alone = rendered(*RELEASES["spark"])[name]["spec"]["template"]["arguments"]
    assert alone == ["--catalog=eu=https://eu", "--catalog=hub=http://hub:8080"]
    shared = rendered(*RELEASES["all"])[name]["spec"]["template"]
    assert "--report=/reports/last" in shared["arguments"]
    assert shared["volumes"] == [
        {"name": "reports", "persistentVolumeClaim": {"claimName": "reports"}}
    ]


def test_backups_are_kept_in_a_volume_that_outlives_its_pods() -> None:
    job = rendered(*RELEASES["all"])["CronJob/hub-concord-backup"]["spec"]["jobTemplate"]["spec"]
    pod = job["template"]["spec"]
    assert pod["containers"][0]["args"] == ["backup", "/backups/hub", "--keep", "14"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "backups"]
    assert volume["persistentVolumeClaim"] == {"claimName": "backups"}
    assert "CronJob/hub-concord-backup" not in rendered("open=true")


def test_the_rules_of_prometheus_are_given_to_its_operator_unchanged() -> None:
    given = rendered(*RELEASES["all"])["PrometheusRule/hub-concord"]["spec"]
    assert given == read_yaml(MONITORING / "rules.yml")
