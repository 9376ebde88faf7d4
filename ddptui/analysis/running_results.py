"""The results so far of a run: hears its stream. Pure: what is written, and where, is the caller's."""

from typing import Any

from ddptui.analysis.compare import compare
from ddptui.analysis.repeat import NO_OUTCOMES, LaunchLog, Outcomes, outcome_of_log
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.wire.records import Ended, Message


class RunningResults:
    """`results` is what is finished, at any time."""

    def __init__(self, preset: Preset, run: str, environment: dict[str, Any], there: Outcomes = NO_OUTCOMES) -> None:
        """`there`: what the run has already."""
        self._preset = preset
        self._run = run
        self._environment = environment
        self._outcomes = dict(there)
        self._heard = LaunchLog()
        self.results: Results = compare(preset, run, environment, self._outcomes)

    def add(self, message: Message) -> bool:
        """Whether a repeat was over with it, and so the results are new."""
        self._heard.add(message)
        if not isinstance(message, Ended):
            return False
        if found := outcome_of_log(self._heard):
            self._outcomes[found.trial, found.repeat] = found
        self._heard = LaunchLog()
        self.results = compare(self._preset, self._run, self._environment, self._outcomes)
        return True
