"""A run's answer to its preset's question, in one to three sentences made from what was measured."""

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset


def answer(results: Results, preset: Preset) -> list[str]:
    """The answer, a sentence each."""
    return []
