"""Are the manifests in examples/k8s what Kubernetes takes? Built-in kinds are
compared with Kubernetes' own schema, JobSet and TrainJob with the models of their
API, and those of which no package has one with the fields below: PyTorchJob
(training-operator 1.9) and Volcano's Job (1.9). Then each check is given a manifest
with a mistake, which it must find. Last: all that end a job at once by an exit status
do so for the same ones."""
import copy
import glob
import os
import sys

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models

VERSION = "1.34"
PYTORCHJOB = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "namespace": str},
    "spec": {
        "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int},
        "nprocPerNode": str,
        "elasticPolicy": {
            "minReplicas": int, "maxReplicas": int, "maxRestarts": int,
            "rdzvBackend": str, "rdzvPort": int, "rdzvHost": str,
            "rdzvId": str, "rdzvConf": [{"key": str, "value": str}],
            "standalone": bool,
        },
        "pytorchReplicaSpecs": {
            role: {"replicas": int, "restartPolicy": str, "template": "pod"}
            for role in ("Master", "Worker")
        },
    },
}
VOLCANO = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "namespace": str},
    "spec": {
        "schedulerName": str, "minAvailable": int, "maxRetry": int,
        "queue": str, "ttlSecondsAfterFinished": int,
        "plugins": {"env": [str], "svc": [str], "ssh": [str]},
        "policies": [{"event": str, "action": str}],
        "tasks": [{"name": str, "replicas": int, "minAvailable": int,
                   "policies": [{"event": str, "action": str}],
                   "template": "pod"}],
    },
}


def check_pod(template):
    """As the template of a Job, which has the same type."""
    job = {"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": "x"}, "spec": {"template": template}}
    job = copy.deepcopy(job)
    job["spec"]["template"]["spec"].setdefault("restartPolicy", "Never")
    kubernetes_validate.validate(job, VERSION, strict=True)


def check_fields(value, fields, at):
    if fields == "pod":
        check_pod(value)
    elif isinstance(fields, dict):
        for key, inner in value.items():
            if key not in fields:
                raise ValueError(f"{at} has no field {key}")
            check_fields(inner, fields[key], f"{at}.{key}")
    elif isinstance(fields, list):
        for inner in value:
            check_fields(inner, fields[0], at)
    elif not isinstance(value, fields):
        raise ValueError(f"{at} must be of type {fields.__name__}")


def check_model(manifest, model):
    """What a model does not know it drops."""
    known = model.from_dict(copy.deepcopy(manifest)).to_dict()
    if known != manifest:
        raise ValueError(f"unknown fields: {manifest} was read as {known}")


def check(manifest):
    kind = manifest["kind"]
    if kind == "PyTorchJob":
        check_fields(manifest, PYTORCHJOB, kind)
    elif manifest["apiVersion"].startswith("batch.volcano.sh/"):
        check_fields(manifest, VOLCANO, kind)
    elif kind == "TrainJob":
        check_model(manifest, models.TrainerV1alpha1TrainJob)
    elif kind == "JobSet":
        check_model(manifest, models.JobsetV1alpha2JobSet)
        for job in manifest["spec"]["replicatedJobs"]:
            kubernetes_validate.validate(
                {"apiVersion": "batch/v1", "kind": "Job",
                 "metadata": {"name": "x"}, **job["template"]},
                VERSION, strict=True)
    else:
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def places(value, path=()):
    """Where a field can be misspelt: each key of each mapping."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path + (key,)
            yield from places(inner, path + (key,))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, path + (i,))


def misspelt(manifest, path):
    other = copy.deepcopy(manifest)
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1] + "x"] = inner.pop(path[-1])
    return other


def statuses(value):
    """Of each rule in it that ends a job at once: the exit statuses."""
    if isinstance(value, list):
        for inner in value:
            yield from statuses(inner)
    elif isinstance(value, dict):
        if value.get("action") == "FailJob" and "onExitCodes" in value:
            yield tuple(sorted(value["onExitCodes"]["values"]))
        yield from statuses(list(value.values()))


def is_found(manifest):
    try:
        check(manifest)
    except (ValueError, KeyError, kubernetes_validate.ValidationError):
        return True
    return False


def main(folder):
    documents = mistakes = 0
    unseen = set()
    final = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.yaml"))):
        with open(path) as f:
            manifests = list(yaml.safe_load_all(f))
        for manifest in manifests:
            check(manifest)
            documents += 1
            for found in statuses(manifest):
                final.setdefault(found, []).append(os.path.basename(path))
            for place in places(manifest):
                mistakes += 1
                if not is_found(misspelt(manifest, place)):
                    unseen.add(".".join(map(str, place)))
    # The keys of a map that may have any: labels, amounts of resources.
    unseen = {u for u in unseen
              if "elector." not in u and ".limits." not in u}
    if documents == 0 or unseen:
        sys.exit(f"{documents} manifests; misspelt, but not found: {unseen}")
    if len(final) != 1:
        sys.exit(f"FailJob is for one set of exit statuses in each file: {final}")
    print(f"manifests: {documents} are right, and each of {mistakes} misspelt "
          "fields is found")


main(sys.argv[1])
