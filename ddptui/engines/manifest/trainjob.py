"""A TrainJob of Kubeflow's Trainer, v2."""

from ddptui.engines.manifest import pod
from ddptui.engines.manifest.options import Options
from ddptui.engines.manifest.yaml_text import Value


def manifest(name: str, options: Options) -> dict[str, Value]:
    """numProcPerNode is 1, as a pod runs one program, which starts the ranks; the runtime would count GPUs. The
    variables PET_… are the runtime's own: a job that sets one is refused."""
    trainer: dict[str, Value] = {
        "image": options.image,
        "command": pod.command(),
        "numNodes": options.nodes,
        "numProcPerNode": 1,
        "env": pod.environment(),
    }
    if resources := pod.resources(options):
        trainer["resourcesPerNode"] = resources
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
                "name": "torch-distributed",
            },
            "trainer": trainer,
        },
    }
