"""Twelve recorded runs read as they did when they were recorded; results.json and the CSV only grow."""

import json

import jsonschema
import pytest

from tests.recorded import net
from tests.recorded.net import NAMES, RUNS, differences, headers_now, read_run, schema_now, shrunk

SCHEMA, HEADERS = (json.loads(path.read_text()) for path in (net.SCHEMA, net.HEADERS))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_reads_as_it_did(name: str) -> None:
    now = read_run(RUNS / name)
    assert differences(RUNS / name, now) == []
    jsonschema.validate(json.loads(now["results.json"]), SCHEMA)


def test_results_json_only_grows() -> None:
    assert list(shrunk(SCHEMA, schema_now())) == []


def test_the_csv_headers_only_grow() -> None:
    for kind, columns in headers_now().items():
        assert columns[: len(HEADERS[kind])] == HEADERS[kind]


# What must turn the net red: the file, a text in it, what that becomes, and the path that is named.
