"""Ranks inside the tests' own process."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def garbage_of_its_own() -> None:
    """Whoever leaves a group looks for garbage. He looks among what this file has made, not among all that the files
    before it have imported, which would take ten times as long as most of these tests."""
    gc.collect()
    gc.freeze()
