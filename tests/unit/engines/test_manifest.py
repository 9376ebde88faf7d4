"""What `ddptui manifest` renders is what the platforms publish that they take."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml

from ddptui.engines.manifest import KindName, ManifestError, Options, render
from tests.support.schemas import kubeflow, pai_dlc
from tests.support.schemas.strict import Schema, complaints

TICKET = "ddptui1.AbC+/=="
SCHEMAS: dict[KindName, Callable[[], Schema]] = {
    "trainjob": kubeflow.trainjob,
    "pytorchjob": kubeflow.pytorchjob,
    "dlc": pai_dlc.create_job,
}
WHOLE: dict[KindName, Options] = {
    "trainjob": Options(
        kind="trainjob", nodes=3, image="registry.example:5000/a@sha256:0f", gpus=2, cpus=8, memory="8Gi"
    ),
    "pytorchjob": Options(kind="pytorchjob", nodes=3, image="ddptui:1", gpus=2, cpus=8, memory="1.5Gi"),
    "dlc": Options(kind="dlc", nodes=3, image="ddptui:1", ticket=TICKET, ecs="ecs.g6.xlarge", workspace="268"),
}


def documents(options: Options, preset: str = "scaling") -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(render(preset, options)))


def job(options: Options, preset: str = "scaling") -> dict[str, Any]:
    return documents(options, preset)[-1]


QUOTA = Options(kind="dlc", nodes=2, image="x", ticket=TICKET, quota="quota1", cpus=4, memory="8Gi", gpus=1)


@pytest.mark.parametrize(
    "options",
    [
        *(msgspec.structs.replace(whole, nodes=nodes) for whole in WHOLE.values() for nodes in (1, 2, 1024)),
        *(Options(kind=kind, nodes=2, image="ddptui") for kind in ("trainjob", "pytorchjob")),  # no more than is needed
        QUOTA,
    ],
)
def test_the_platform_takes_it(options: Options) -> None:
    rendered = job(options)
    assert complaints(SCHEMAS[options.kind](), rendered) == []
    assert complaints(SCHEMAS[options.kind](), rendered | {"specs": {}}) != []
    assert ("resources" in json.dumps(rendered)) == (options.cpus is not None and options.kind != "dlc")


def test_a_pod_is_a_node_that_joins() -> None:
    trainjob = job(WHOLE["trainjob"])
    assert (trainjob["apiVersion"], trainjob["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    trainer = trainjob["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (3, 1)
    assert trainer["command"] == ["ddptui", "join"]
    assert trainer["resourcesPerNode"]["limits"] == {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2"}
    assert [each["name"] for each in trainer["env"]] == ["DDPTUI_TICKET"]  # PET_… are the runtime's


def test_the_master_of_a_pytorchjob_is_one_of_its_nodes() -> None:
    pytorchjob = job(WHOLE["pytorchjob"])
    assert (pytorchjob["apiVersion"], pytorchjob["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    replicas = pytorchjob["spec"]["pytorchReplicaSpecs"]
    assert {name: each["replicas"] for name, each in replicas.items()} == {"Master": 1, "Worker": 2}
    assert {each["restartPolicy"] for each in replicas.values()} == {"Never"}
    assert {each["template"]["spec"]["containers"][0]["name"] for each in replicas.values()} == {"pytorch"}
    alone = job(msgspec.structs.replace(WHOLE["pytorchjob"], nodes=1))
    assert list(alone["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_dlc_has_as_many_workers_as_nodes_and_the_ticket_itself() -> None:
    rendered = job(WHOLE["dlc"])
    assert json.loads(render("scaling", WHOLE["dlc"])) == rendered
    assert rendered["JobType"] == "PyTorchJob"
    assert [(each["Type"], each["PodCount"]) for each in rendered["JobSpecs"]] == [("Worker", 3)]
    assert rendered["UserCommand"] == "exec ddptui join"
    assert rendered["Envs"] == {"DDPTUI_TICKET": TICKET}
    assert rendered["WorkspaceId"] == "268"
    assert job(QUOTA)["JobSpecs"][0]["ResourceConfig"] == {"CPU": "4", "Memory": "8Gi", "GPU": "1"}


@pytest.mark.parametrize("kind", ["trainjob", "pytorchjob"])
def test_a_ticket_comes_in_a_secret_before_the_job(kind: KindName) -> None:
    first, second = documents(msgspec.structs.replace(WHOLE[kind], ticket=TICKET))
    assert complaints(kubeflow.secret(), first) == []
    named = first["kind"], first["metadata"]["name"], first["stringData"]
    assert named == ("Secret", "ddptui-ticket", {"ticket": TICKET})
    assert second == job(WHOLE[kind])


def test_without_a_ticket_the_command_that_makes_the_secret_is_said() -> None:
    text = render("scaling", WHOLE["trainjob"])
    assert "#     ddptui run scaling --engine join --nodes 3\n" in text
    assert "#     kubectl create secret generic ddptui-ticket --from-file=ticket=TICKET_FILE\n" in text
    assert "kubectl" not in render("scaling", msgspec.structs.replace(WHOLE["trainjob"], ticket=TICKET))


@pytest.mark.parametrize("text", ["null", "yes", "1e3", "0x1f", "1:30", "2026-01-01", "a@b", "a:"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_text_stays_a_text(kind: KindName, text: str) -> None:
    assert json.dumps(text) in json.dumps(job(msgspec.structs.replace(WHOLE[kind], image=text)))


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("scaling", "ddptui-scaling"),
        ("my/All_reduce.v2.toml", "ddptui-all-reduce-v2"),
        ("a" * 38, f"ddptui-{'a' * 38}"),
    ],
)
def test_a_job_is_called_after_its_preset(preset: str, name: str) -> None:
    assert job(WHOLE["trainjob"], preset)["metadata"]["name"] == name


@pytest.mark.parametrize("preset", ["", "é", "a" * 39, "-", "a/b", "dir\n- x/scaling.toml", "scaling-", "$(x)"])
def test_a_preset_that_names_no_job_is_refused(preset: str) -> None:
    with pytest.raises(
        ManifestError, match=r"^preset '.*' makes no valid job name: name it with a-z, 0-9, -, at most 38 characters$"
    ):
        render(preset, WHOLE["trainjob"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"image": ""}, "--image '' is not an image"),
        ({"image": "my image"}, "--image 'my image' is not an image: expected registry/name:tag"),
        ({"image": "x\n  command: [evil]"}, r"--image 'x\n  command"),
        ({"memory": "lots"}, "--memory 'lots' is not an amount of memory: expected e.g. 8Gi or 512Mi"),
        ({"memory": "0Gi"}, "--memory '0Gi' is not an amount"),
        ({"memory": "8gb"}, "--memory '8gb' is not an amount"),
        ({"ticket": ""}, "--ticket: the file holds no ticket"),
        ({"ticket": "a b"}, "--ticket: the file holds no ticket"),
        ({"quota": "quota1"}, "--workspace, --quota and --ecs are for PAI-DLC: add --kind dlc"),
        ({"kind": "dlc"}, "--kind dlc: its jobs have no Secret"),
        ({"kind": "dlc", "ticket": "x"}, "--kind dlc: needs either --ecs TYPE"),
        ({"kind": "dlc", "ticket": "x", "ecs": "ecs.a"}, "--kind dlc: needs either --ecs TYPE"),
        ({"kind": "dlc", "ticket": "x", "quota": "a b"}, "--quota 'a b' is not the id of a quota"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ManifestError, match="^" + re.escape(why)) as raised:
        render("scaling", msgspec.structs.replace(WHOLE["trainjob"], **change))
    assert "\n" not in str(raised.value)
