"""The chart as helm renders it, held to the schemas of Kubernetes and of the operators."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import jsonschema_rs
import pytest

from tests.deploy.chart import CHART, KUBERNETES, Object, helm, options, rendered
from tests.deploy.files import MONITORING, read_yaml

CRDS = "CONCORD_TEST_CRDS"
_OPERATORS = ("monitoring.coreos.com/", "sparkoperator.k8s.io/")
_CATALOGS = ("reconciliation.catalogs.hub=http://hub:8080", "reconciliation.catalogs.eu=https://eu")
_CLAIM = "reconciliation.reports.persistentVolumeClaim.claimName=reports"
RELEASES: dict[str, Sequence[str]] = {
    "least": (),
    "cronjob": ("reconciliation.mode=cronjob", *_CATALOGS),
    "spark": ("reconciliation.mode=spark", *_CATALOGS),
    "all": (
        *("reconciliation.mode=spark", *_CATALOGS, "reconciliation.arguments={--repair}"),
        *("reconciliation.reports.emptyDir=null", _CLAIM),
        *("ingress.enabled=true", "ingress.host=hub.example.com", "ingress.className=nginx"),
        *("ingress.tlsSecret=tls", "ingress.annotations.a=b", "service.annotations.a=b"),
        *("podMonitor.enabled=true", "podMonitor.labels.a=b", "prometheusRule.labels.a=b"),
        *("image.pullSecrets[0].name=pull", "settings.CONCORD_LOG_DAYS=60", "nodeSelector.a=b"),
        *("tolerations[0].key=a", "tolerations[0].operator=Exists", "podAnnotations.a=b"),
        *("secretSettings[0].name=CONCORD_KAFKA_URL", "secretSettings[0].secret=kafka"),
        *("secretSettings[0].key=url", "open=false", "replicas=1", "migration.enabled=false"),
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
    objects = rendered()
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


def test_the_rules_of_prometheus_are_given_to_its_operator_unchanged() -> None:
    given = rendered(*RELEASES["all"])["PrometheusRule/hub-concord"]["spec"]
    assert given == read_yaml(MONITORING / "rules.yml")
