"""The results so far of a run under way: hears its stream, and rewrites results.json after every repeat."""

from ddptui.compare import compare
from ddptui.outcome import Outcome, outcome
from ddptui.preset import Preset
from ddptui.record import Run
from ddptui.results import Results
from ddptui.wire import Ended, Message


class Tally:
    """`results` is what is finished, at any time."""

    def __init__(self, preset: Preset, run: Run) -> None:
        self._preset = preset
        self._run = run
        self._environment = run.environment()
        self._outcomes: dict[tuple[str, int], Outcome] = {}
        self._messages: list[Message] = []
        self.results: Results = compare(preset, run.name, self._environment, self._outcomes)

    def hear(self, message: Message) -> None:
        """Raises OSError where the results can no longer be kept."""
        self._messages.append(message)
        if isinstance(message, Ended):
            if found := outcome(self._messages):
                self._outcomes[found.trial, found.repeat] = found
            self._messages = []
            self.results = compare(self._preset, self._run.name, self._environment, self._outcomes)
            self._run.write_results(self.results)
