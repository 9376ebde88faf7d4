"""The results so far of a run: hears its stream. Pure: what is written, and where, is the caller's."""

from typing import Any

from ddptui.compare import compare
from ddptui.outcome import Outcome, outcome
from ddptui.preset import Preset
from ddptui.results import Results
from ddptui.wire import Ended, Message


class Tally:
    """`results` is what is finished, at any time."""

    def __init__(self, preset: Preset, run: str, environment: dict[str, Any]) -> None:
        self._preset = preset
        self._run = run
        self._environment = environment
        self._outcomes: dict[tuple[str, int], Outcome] = {}
        self._messages: list[Message] = []
        self.results: Results = compare(preset, run, environment, {})

    def hear(self, message: Message) -> bool:
        """Whether a repeat was over with it, and so the results are new."""
        self._messages.append(message)
        if not isinstance(message, Ended):
            return False
        if found := outcome(self._messages):
            self._outcomes[found.trial, found.repeat] = found
        self._messages = []
        self.results = compare(self._preset, self._run, self._environment, self._outcomes)
        return True
