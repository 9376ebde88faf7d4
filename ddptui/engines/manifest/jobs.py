"""`ddptui manifest`: renders the job of each platform. Every pod is a node that joins the run and starts its ranks."""

import json
import shlex

from ddptui.engines.manifest.options import ManifestError, Options, check, name_of
from ddptui.engines.manifest.yaml_text import Value, yaml_text

TICKET = "DDPTUI_TICKET"  # the variable from which `ddptui join` reads the ticket
SECRET, KEY = "ddptui-ticket", "ticket"
CONTAINER = "pytorch"  # the training operator knows the container by this name


def render(preset: str, options: Options) -> str:
    """YAML; for PAI-DLC JSON, which has no room for comments. Raises ManifestError."""
    check(options)
    name = name_of(preset)
    if options.kind == "dlc":
        return json.dumps(_dlc(name, options), indent=2) + "\n"
    documents = [_trainjob(name, options) if options.kind == "trainjob" else _pytorchjob(name, options)]
    if options.ticket is not None:
        documents.insert(0, _secret(options.ticket))
    text = "---\n".join(yaml_text(document) for document in documents)
    return "\n".join(_comments(preset, options)) + "\n" + text


def _comments(preset: str, options: Options) -> list[str]:
    """What to type before this file is submitted."""
    console = f"ddptui --preset {shlex.quote(preset)} --engine join --nodes {options.nodes}"
    lines = [f"# {options.nodes} {'pod' if options.nodes == 1 else 'pods'} that join a run. It waits for them in"]
    lines.append(f"#     {console}")
    if options.ticket is None:
        make_secret = f"kubectl create secret generic {SECRET} --from-file={KEY}=TICKET_FILE"
        lines += ["# which has a ticket. Before this file, in the same namespace:", f"#     {make_secret}"]
    return lines


def _trainjob(name: str, options: Options) -> dict[str, Value]:
    """A TrainJob of Kubeflow's Trainer, v2. The variables PET_… belong to its runtime, which refuses a job with one."""
    trainer: dict[str, Value] = {
        "image": options.image,
        "command": _join_command(),
        "numNodes": options.nodes,
        "numProcPerNode": 1,  # a pod runs one program, which starts the ranks; by default the runtime counts GPUs
        "env": _ticket_variable(),
    }
    if resources := _resources(options):
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


def _pytorchjob(name: str, options: Options) -> dict[str, Value]:
    """A PyTorchJob of Kubeflow's training operator, v1. Failed pods are not restarted, because their run is over then.
    Pods that still run are ended; the others are kept for their logs."""
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
        "command": _join_command(),
        "env": _ticket_variable(),
    }
    if resources := _resources(options):
        container["resources"] = resources
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}


def _join_command() -> list[Value]:
    return ["ddptui", "join"]  # no shell in between: the signal that ends the pod has to reach it


def _ticket_variable() -> list[Value]:
    return [{"name": TICKET, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": KEY}}}]


def _resources(options: Options) -> dict[str, Value]:
    """Requests equal limits: a node that shares its cores with others would measure the others as well."""
    amounts: dict[str, Value] = {}
    if options.cpus is not None:
        amounts["cpu"] = str(options.cpus)
    if options.memory is not None:
        amounts["memory"] = options.memory
    if options.gpus:
        amounts["nvidia.com/gpu"] = str(options.gpus)
    return {"requests": amounts, "limits": amounts} if amounts else {}


def _secret(ticket: str) -> dict[str, Value]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "type": "Opaque",
        "stringData": {KEY: ticket},
    }


def _dlc(name: str, options: Options) -> dict[str, Value]:
    """The body of PAI-DLC's CreateJob, version 2020-12-03; all nodes are alike, and the first is the master.

    There is no Secret: who may read the job reads the ticket, which is worthless once the run is over. The fields are
    those of https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-createjob.
    """
    if options.ticket is None:
        raise ManifestError("--kind dlc: its jobs have no Secret to take the ticket from: --ticket FILE")
    workers: dict[str, Value] = {
        "Type": "Worker",
        "Image": options.image,
        "PodCount": options.nodes,
        "RestartPolicy": "Never",
        **_dlc_machine(options),
    }
    job: dict[str, Value] = {
        "DisplayName": name,
        "JobType": "PyTorchJob",
        "JobSpecs": [workers],
        "UserCommand": "exec ddptui join",
        "Envs": {TICKET: options.ticket},
    }
    if options.workspace is not None:
        job["WorkspaceId"] = options.workspace
    if options.quota is not None:
        job["ResourceId"] = options.quota
    return job


def _dlc_machine(options: Options) -> dict[str, Value]:
    """A quota is divided by amounts; hired machines come by type."""
    has_amounts = options.quota is not None and options.cpus is not None and options.memory is not None
    if options.ecs is not None and not (options.quota or options.cpus or options.memory or options.gpus):
        return {"EcsSpec": options.ecs}
    if options.ecs is not None or not has_amounts:
        raise ManifestError("--kind dlc: either --ecs TYPE, a hired machine, or --quota ID --cpus C --memory M")
    gpus: dict[str, Value] = {"GPU": str(options.gpus)} if options.gpus else {}
    return {"ResourceConfig": {"CPU": str(options.cpus), "Memory": str(options.memory), **gpus}}
