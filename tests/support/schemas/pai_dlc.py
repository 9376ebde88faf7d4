"""The fields of PAI-DLC's CreateJob, version 2020-12-03, as its client names and types them (version 1.11.6 of
alibabacloud-pai-dlc20201203, Apache-2.0): those of which a manifest of ours may have one. There is no schema of it."""

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
