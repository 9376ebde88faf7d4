"""The fields of PAI-DLC's CreateJob, version 2020-12-03, that our manifests may use. PAI publishes no schema: names and
types are those of its client (alibabacloud-pai-dlc20201203 1.11.6, Apache-2.0)."""

from tests.support.schemas.strict import Schema, closed

TEXT: Schema = {"type": "string"}
AMOUNTS = {"properties": {"CPU": TEXT, "GPU": TEXT, "Memory": TEXT, "SharedMemory": TEXT}}
WORKER = {"Type": TEXT, "Image": TEXT, "PodCount": {"type": "integer"}, "RestartPolicy": TEXT, "EcsSpec": TEXT}
JOB = dict.fromkeys(("DisplayName", "JobType", "UserCommand", "ResourceId", "WorkspaceId"), TEXT)
REQUIRED = ["DisplayName", "JobSpecs", "JobType", "UserCommand"]


def create_job() -> Schema:
    workers = {"type": "object", "properties": WORKER | {"ResourceConfig": {"type": "object", **AMOUNTS}}}
    fields = JOB | {
        "JobSpecs": {"type": "array", "items": workers},
        "Envs": {"type": "object", "additionalProperties": TEXT},
    }
    schema: Schema = closed({"type": "object", "properties": fields, "required": REQUIRED})
    return schema
