"""Twelve recorded runs read as they did when they were recorded; results.json and the CSV only grow."""

import json
import re

import jsonschema
import pytest

from tests.recorded import net
from tests.recorded.net import KEPT, NAMES, RUNS, differences, headers_now, read_run, schema_now, shrunk
from tests.recorded.record import RECORDINGS

SCHEMA, HEADERS = (json.loads(path.read_text()) for path in (net.SCHEMA, net.HEADERS))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_reads_as_it_did(name: str) -> None:
    now = read_run(RUNS / name)
    assert differences(RUNS / name, now) == []
    jsonschema.validate(json.loads(now["results.json"]), SCHEMA)


def test_every_kind_of_run_is_recorded() -> None:
    assert sorted(RECORDINGS) == NAMES


def test_results_json_only_grows() -> None:
    assert list(shrunk(SCHEMA, schema_now())) == []


def test_the_csv_headers_only_grow() -> None:
    for kind, columns in headers_now().items():
        assert columns[: len(HEADERS[kind])] == HEADERS[kind]


# What must turn the net red: the file, a text in it, what that becomes, and the path that is named.
FALLEN = {
    "a figure": ("results.json", r'"train_time_s": (\d)', r'"train_time_s": 1\1', "train_time_s"),
    "a figure in its ninth digit": (
        "results.json",
        r'"samples_per_s": (\d+)\.',
        r'"samples_per_s": \g<1>.0000005',
        "samples_per_s",
    ),
    "a rank": ("results.json", r'"rank": 1', '"rank": 0', ".rank"),
    "a key": ("results.json", r'"startup_s"', '"start_s"', "startup_s"),
    "a column": ("results.csv", r"startup_s", "start_s", "startup_s"),
    "a phase": ("findings.json", r"in backward", "in forward", "live"),
    "a finding": ("findings.json", r'\[\s+"finding",[^]]+\],[^]]+\],', "", "notes"),
    "a kind of answer": ("findings.json", r'"roughly"', '"slower"', "answer"),
}


@pytest.mark.parametrize(("file", "text", "instead", "path"), FALLEN.values(), ids=FALLEN.keys())
def test_what_changes_is_named(file: str, text: str, instead: str, path: str) -> None:
    folder = RUNS / "bottleneck-where"
    now = {kept: (folder / kept).read_text() for kept in KEPT}
    assert differences(folder, now) == []
    now[file], count = re.subn(text, instead, now[file], count=1)
    assert count
    assert any(line.startswith(file) and path in line for line in differences(folder, now))


@pytest.mark.parametrize(
    ("text", "instead", "path"),
    [
        ('"culprit": {"anyOf"', '"late": {"anyOf"', "properties.culprit is gone"),
        ('"inconclusive", ', "", "'inconclusive' is gone"),
        ('"accuracy": {"anyOf": [{"type": "number"}, ', '"accuracy": {"anyOf": [', "{'type': 'number'} is gone"),
    ],
)
def test_what_goes_from_the_schema_is_named(text: str, instead: str, path: str) -> None:
    kept = json.dumps(SCHEMA)
    assert text in kept
    assert any(path in line for line in shrunk(SCHEMA, json.loads(kept.replace(text, instead))))
