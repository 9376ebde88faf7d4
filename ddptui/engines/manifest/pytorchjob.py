"""A PyTorchJob of Kubeflow's training operator, v1, which Trainer v2 has replaced."""

from ddptui.engines.manifest import pod
from ddptui.engines.manifest.options import Options
from ddptui.engines.manifest.yaml_text import Value

CONTAINER = "pytorch"  # the operator knows it by that name


def manifest(name: str, options: Options) -> dict[str, Value]:
    """What failed is not started again, as its run is over; pods that still run then are ended, the others keep
    their logs."""
    replicas: dict[str, Value] = {"Master": _replicas(1, options)}
    if options.nodes > 1:
        replicas["Worker"] = _replicas(options.nodes - 1, options)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "nprocPerNode": "1",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "pytorchReplicaSpecs": replicas,
        },
    }


def _replicas(count: int, options: Options) -> dict[str, Value]:
    container: dict[str, Value] = {
        "name": CONTAINER,
        "image": options.image,
        "command": pod.command(),
        "env": pod.environment(),
    }
    if resources := pod.resources(options):
        container["resources"] = resources
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
