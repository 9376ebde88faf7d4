"""What a run of primitives has measured so far, by trial, and which primitive is running."""

from collections.abc import Iterable

import msgspec

from ddptui.analysis.primitive_results import PrimitivesLog, PrimitivesResult, combined
from ddptui.analysis.results import Results
from ddptui.config.catalog import OPERATIONS, REDUCE_OPS, message_sizes, operations_tried, primitive_title
from ddptui.config.trial import Trial
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.live.state import Live
from ddptui.text.words import size
from ddptui.wire.messages import Hello, Shown, Timed
from ddptui.wire.records import Launched, Message


class PrimitivesProgress:
    """The results of the finished launches, and of the running launch, as far as all ranks have sent messages."""

    def __init__(self, outcomes: Outcomes = NO_OUTCOMES) -> None:
        """`outcomes`: the launches that a resumed run already has."""
        self.trial: str | None = None  # the trial that was launched last
        self._launches: dict[str, list[PrimitivesResult]] = {}  # by trial
        self._together: dict[str, PrimitivesResult] = {}  # cache by trial: its launches combined
        self._hello: Hello | None = None
        self._messages = PrimitivesLog()
        for outcome in outcomes.values():
            if outcome.primitives is not None:
                self._launches.setdefault(outcome.trial, []).append(outcome.primitives)

    @staticmethod
    def of(results: Results) -> "PrimitivesProgress":
        """Returns the results of a finished run."""
        progress = PrimitivesProgress()
        progress._launches = {trial.name: list(trial.primitives) for trial in results.trials if trial.primitives}
        return progress

    def result(self, trial: str) -> PrimitivesResult | None:
        """The combined result of a trial's launches; the same object until more is measured."""
        if trial not in self._together and trial in self._launches:
            self._together[trial] = combined(self._launches[trial])
        return self._together.get(trial)

    def add(self, messages: Iterable[Message]) -> None:
        """Apply messages, in order."""
        for message in messages:
            match message:
                case Launched():
                    self.trial, self._hello, self._messages = message.trial, None, PrimitivesLog()
                case Hello() if self._hello is None:
                    self._hello = message
                    self._launches.setdefault(self.trial or "", []).append(self._messages.result(message))
                case Shown() | Timed() if self._hello is not None:
                    self._messages.add(message)
                    self._add(message.place, self._hello)

    def _add(self, place: int, hello: Hello) -> None:
        """Once all ranks have sent their message for a place, replace the messages with the result."""
        messages = self._messages.places.get(place, {})
        if len(messages) < hello.world_size or self.trial is None:
            return
        more = PrimitivesLog({place: self._messages.places.pop(place)}).result(hello)
        launches = self._launches[self.trial]
        before = launches[-1]
        views, cells = [*before.views, *more.views], [*before.cells, *more.cells]
        launches[-1] = msgspec.structs.replace(more, views=views, cells=cells)
        self._together.pop(self.trial, None)


def current_primitive(live: Live, trial: Trial | None) -> str:
    """The primitive that the ranks call now, e.g. "all_reduce, 64 KB"; empty between launches."""
    calls = plan(trial) if trial and live.status == "running" and live.steps else []
    return calls[live.step] if live.step < len(calls) else ""


def plan(trial: Trial) -> list[str]:
    """The primitives that the ranks of a trial call, in order."""
    is_shown = trial.primitives == "see"
    operators = trial.reduce_ops or (REDUCE_OPS if is_shown else ("sum",))
    sizes = message_sizes(trial.min_bytes, trial.max_bytes, trial.step_factor)
    places = []
    for name in operations_tried(trial.operations, shown=is_shown, pipelined=trial.cadence == "pipelined"):
        facts, calls = OPERATIONS[name], [primitive_title(name)]
        if facts.reduces:
            calls = [f"{calls[0]} {op.upper()}" if is_shown else calls[0] for op in operators]
        amounts = [f", {size(bytes)}" for bytes in sizes] if facts.has_bytes and not is_shown else [""]
        places += [f"{call}{amount}" for call in calls for amount in amounts]
    composites = [primitive_title(name, composite=True) for name in trial.composites if not is_shown]
    return places + [f"{composite}, {size(bytes)}" for composite in composites for bytes in sizes]
