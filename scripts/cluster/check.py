"""Validates the manifests beside this file, or those given: core kinds by the schemas of Kubernetes (kubernetes-validate), JobSets and those
of Kubeflow Trainer by the models of its API (kubeflow-trainer-api), and the service, secret and claim that a job needs. Kueue has no
models: the label of its queue is that of https://kueue.sigs.k8s.io/docs/tasks/run/jobs.

    scripts/cluster/check.sh [FILE...]
"""

import pathlib
import sys

import kubeflow_trainer_api.models as models
import kubernetes_validate
import yaml

VERSION = "1.34"  # of Kubernetes
MODELS = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): models.JobsetV1alpha2JobSet,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): models.TrainerV1alpha1TrainJob,
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): models.TrainerV1alpha1ClusterTrainingRuntime,
}


def unknown_keys(given, known, path=""):
    """The paths of keys that a model has dropped."""
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            if key not in known:
                yield f"{path}.{key}"
            else:
                yield from unknown_keys(value, known[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(known, list):
        for index, (value, other) in enumerate(zip(given, known)):
            yield from unknown_keys(value, other, f"{path}[{index}]")


def find_all(value, key):
    """Every value of a key, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from find_all(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from find_all(inner, key)


def mistakes_of_kind(document):
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind == ("kubeflow.org/v1", "TFJob"):  # of Kubeflow's first operator: no schema is at hand, but for its pods
        for template in find_all(document, "template"):
            yield from mistakes_of_kind({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **template})
        return
    try:
        if kind in MODELS:
            known = MODELS[kind].from_dict(document).to_dict()
            yield from (f"unknown key {path}" for path in unknown_keys(document, known))
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)
    except (ValueError, kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        yield f"{' '.join(map(str, kind))}: {error}"


def mistakes_of_job(documents):
    """What a cluster accepts, but a job of several ranks does not run with."""
    services = {document["metadata"]["name"] for document in documents if document.get("kind") == "Service"}
    services |= {network.get("subdomain") for network in find_all(documents, "network")}
    for command in find_all(documents, "command"):
        if "--hosts" in command:
            service = command[command.index("--hosts") + 1].partition("}.")[2]
            if service not in services:
                yield f"no service has the name {service}, in which --hosts names the pods"
    runtimes = {document["metadata"]["name"] for document in documents if document.get("kind") == "ClusterTrainingRuntime"}
    for reference in find_all(documents, "runtimeRef"):
        if reference["name"] not in runtimes:
            yield f"no runtime has the name {reference['name']}"
    text = yaml.safe_dump_all(documents)
    is_sweep = "JOB_COMPLETION_INDEX" in text  # each pod takes its point by this number, and trains alone
    of_job = {"TRAINER_SECRET", "parallel.require_cluster"}
    for needed in {"persistentVolumeClaim", "terminationGracePeriodSeconds"} | (set() if is_sweep else of_job):
        if needed not in text:
            yield f"{needed} is missing"
    for wrong in of_job | {"--hosts"} if is_sweep else ():
        if wrong in text:
            yield f"{wrong} is not for a sweep, whose pods train alone"


def mistakes_of(file):
    documents = list(yaml.safe_load_all(file.read_text()))
    return [mistake for document in documents for mistake in mistakes_of_kind(document)] + list(mistakes_of_job(documents))


def main():
    files = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(pathlib.Path(__file__).parent.glob("*.yaml"))
    found = [f"{file}: {mistake}" for file in files for mistake in mistakes_of(file)]
    print(*found, f"{len(files)} manifests, {len(found)} mistakes", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
