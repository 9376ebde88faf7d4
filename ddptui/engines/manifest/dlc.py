"""A job of Alibaba's PAI-DLC: the body of its CreateJob (version 2020-12-03), as JSON.

Its fields are those of https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-createjob.
"""

from ddptui.engines.manifest import pod
from ddptui.engines.manifest.options import ManifestError, Options
from ddptui.engines.manifest.yaml_text import Value

COMMAND = "exec ddptui join"


def manifest(name: str, options: Options) -> dict[str, Value]:
    """Nodes of one kind: the first of them is the master. There is no Secret, so that who may read the job reads the
    ticket: it is worth nothing once the run is over."""
    if options.ticket is None:
        raise ManifestError("--kind dlc: its jobs have no Secret to take the ticket from: --ticket FILE")
    job: dict[str, Value] = {
        "DisplayName": name,
        "JobType": "PyTorchJob",
        "JobSpecs": [_nodes(options)],
        "UserCommand": COMMAND,
        "Envs": {pod.TICKET: options.ticket},
    }
    if options.workspace is not None:
        job["WorkspaceId"] = options.workspace
    if options.quota is not None:
        job["ResourceId"] = options.quota
    return job


def _nodes(options: Options) -> dict[str, Value]:
    return {
        "Type": "Worker",
        "Image": options.image,
        "PodCount": options.nodes,
        "RestartPolicy": "Never",
        **_machine(options),
    }


def _machine(options: Options) -> dict[str, Value]:
    """A quota is shared out by amounts; what anybody may hire, by types of machine."""
    asked = options.quota is not None and options.cpus is not None and options.memory is not None
    if options.ecs is not None and not (options.quota or options.cpus or options.memory or options.gpus):
        return {"EcsSpec": options.ecs}
    if options.ecs is not None or not asked:
        raise ManifestError("--kind dlc: either --ecs TYPE, a hired machine, or --quota ID --cpus C --memory M")
    gpus: dict[str, Value] = {"GPU": str(options.gpus)} if options.gpus else {}
    return {"ResourceConfig": {"CPU": str(options.cpus), "Memory": str(options.memory), **gpus}}
