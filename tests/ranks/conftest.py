"""Ranks inside the tests' own process."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def garbage_of_its_own() -> None:
    """Leaving a process group runs the garbage collector. With all earlier objects frozen, it looks only at what this
    file has made; else that would take ten times as long as most of these tests."""
    gc.collect()
    gc.freeze()
