"""What is said of a run: of the chosen trial first, then of the others, then of the table and what was published."""

import re
from typing import Any

import msgspec
import pytest

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import Caution
from ddptui.analysis.results import ConfidenceInterval, Culprit, Light, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.notes import answer, in_short, in_words, lights, notes, shown_first
from ddptui.report.table import markdown
from tests.support.builders import (
    done,
    ended,
    failure,
    journal,
    launched,
    preset_of,
    results_for,
    two_trials,
    with_done,
)
from tests.unit.report.edited import edited, warned

PRESET = preset_of(
    {
        "baseline": "a",
        "trial": [{"name": "a"}, {"name": "b", "launch": "launch"}, {"name": "c"}, {"name": "d"}],
        "reference": [{"trial": "a", "train_time_s": 1.0, "source": "a paper"}],
    }
)


def results(warnings: dict[str, list[Caution]]) -> Results:
    """Of a and b, with these cautions; c was stopped, and d not reached."""
    found = results_for(PRESET, journal("a"), journal("b"), [launched("c"), ended("interrupted")])
    return warned(found, lambda trial: warnings.get(trial.name, []))


def blamed(
    trial: TrialResult, cost_s: float, phase: str = "aggregate", steps: tuple[int, int] | None = None
) -> TrialResult:
    excess = ConfidenceInterval(estimate=1.0, low=0.9, high=1.1)
    culprit = Culprit(rank=1, phase=phase, share=1.0, wait_caused_s=cost_s, excess_s=excess, steps=steps)
    return msgspec.structs.replace(trial, summary=msgspec.structs.replace(trial.summary, culprit=culprit))


def test_a_caution_stands_with_the_trial_that_it_concerns_and_how_to_read_the_table_comes_last() -> None:
    found = results({"a": [Caution.TOO_FEW_STEPS], "b": [Caution.OTHER_LOAD]})
    of_a, of_b = (in_words(found, PRESET, name) for name in "ab")
    assert [words.split(":")[0] for words in of_a.chosen] == ["a", "caution, a"]
    assert of_a.others[-1].startswith("caution, b: ")
    assert [words.split(":")[0] for words in of_b.chosen] == ["b", "caution, b"]
    assert of_b.others[-1].startswith("caution, a: ")
    assert of_a.reading == of_b.reading
    assert [words.split(":")[0] for words in of_a.reading] == ["ratio, speed-up", "b"]


def test_all_that_is_said_is_said_once() -> None:
    found = in_words(results({"a": [Caution.TOO_FEW_STEPS], "b": [Caution.TOO_FEW_STEPS]}), PRESET, "b")
    said = [*found.chosen, *found.others, *found.published, *found.reading]
    assert len(said) == len({*said})
    assert sum(words.startswith("caution, ") for words in said) == 1
    assert sum("paper" in words for words in said) == 1


def test_a_trial_that_was_stopped_or_not_reached_and_none_that_is_chosen() -> None:
    found = results({})
    assert in_words(found, PRESET, "c").chosen == ["c was stopped before its end: no figures"]
    assert in_words(found, PRESET, "d").chosen == ["d was not reached"]
    assert in_words(results_for(PRESET, failure("c", error="why")), PRESET, "c").chosen == ["trial c failed: why"]
    assert in_words(results({}), PRESET, None).chosen == []


@pytest.mark.parametrize("name", ["published", "caution"])
def test_a_trial_keeps_its_notes_whatever_its_name(name: str) -> None:
    """Seen red: a trial called `published` lost its notes, when they were sorted by their first word."""
    preset = preset_of({"trial": [{"name": "a"}, {"name": name}]})
    found = results_for(preset, journal("a"), failure(name, error="why"))
    assert in_words(found, preset, name).chosen == [f"trial {name} failed: why"]
    assert f"trial {name} failed: why" in in_words(found, preset, "a").others
    lost = results_for(preset, journal("a"), with_done(journal(name), done(1, dropped=3)))
    assert f"{name}: 3 messages lost to a full queue; the figures lack them" in in_words(lost, preset, name).chosen


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        ([("ddp",), ("ring",)], "ddp"),
        ([("failed", "ddp")], "ddp"),  # one without figures
        ([], "ddp_bf16"),
    ],
)
def test_the_trial_of_the_answer_is_first_else_that_of_the_costliest_rank(
    about: list[tuple[str, ...]], shown: str
) -> None:
    names = ["a", "ddp", "ddp_bf16", "ring", "failed"]
    preset = preset_of({"baseline": "a", "repeats": 1, "trial": [{"name": name} for name in names]})
    found = results_for(preset, *map(journal, names[:-1]), failure("failed"))
    assert shown_first(msgspec.structs.replace(found, findings=[])) == "a"
    late = [blamed(trial, len(trial.name)) if trial.summary else trial for trial in found.trials]
    findings = [Finding(kind=Kind.SLOWER, trials=trials) for trials in about]
    assert shown_first(msgspec.structs.replace(found, trials=late, findings=findings)) == shown


def test_who_is_late_is_said_in_short() -> None:
    trial = results({}).trials[0]
    assert in_short(trial) == in_short(None) == ""
    assert in_short(blamed(trial, 1.0)) == "rank 1 is late, in aggregate"
    assert in_short(blamed(trial, 1.0, "between steps")) == "rank 1 is late, between steps"
    late = blamed(trial, 1.0, steps=(300, 339))  # a matrix beside it is of all
    assert in_short(late) == "rank 1 is late, in aggregate, in steps 300 to 339"


def started(preset: Preset, **trials: list[tuple[str, str]]) -> Results:
    """Of these trials; how each of their repeats was started, and why."""
    messages = [
        [msgspec.structs.replace(launched(name, number), start=start, start_why=why), *journal(name, number)[1:]]
        for name, starts in trials.items()
        for number, (start, why) in enumerate(starts, 1)
    ]
    return results_for(preset, *messages)


def test_what_started_the_ranks_is_said_once_with_all_its_trials() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c", "start": "cold"}], "repeats": 2})
    why = "the process that forks the ranks was killed by SIGKILL"
    found = started(
        preset, a=[("warm", ""), ("cold", why)], b=[("cold", why), ("cold", why)], c=[("cold", ""), ("cold", "")]
    )
    shown = markdown(found, preset)
    assert shown.count("started cold") == 1
    assert f"- a, b: started cold (each rank imports torch itself): {why}" in shown.splitlines()
    starts = [line for line in shown.splitlines() if "2.0" in line]
    assert [re.findall(r"2\.0 [a-z, ]+", line)[0].strip() for line in starts] == [
        "2.0 warm, cold",
        "2.0 cold",
        "2.0 cold",
    ]
    preset = preset_of({"trial": [{"name": "a", "launch": "launch"}]})
    for start, words in (
        ("warm", "elastic_launch, which torch.distributed.launch calls"),
        ("cold", "torch.distributed.launch"),
    ):
        assert f"a: started by {words}" in in_words(started(preset, a=[(start, "")]), preset, "a").reading


@pytest.mark.parametrize(
    ("status", "line"),
    [("skipped", "b: finished 1 of 2 repeats: the others were skipped"), ("interrupted", "b: finished 1 of 2 repeats")],
)
def test_a_repeat_that_was_skipped_is_said(status: str, line: str) -> None:
    left_out = [*journal("b", 2)[:-3], ended(status)]
    preset = two_trials()
    found = results_for(preset, journal("a"), journal("b"), journal("a", 2), left_out)
    assert line in in_words(found, preset, "b").chosen
    assert not any("repeats" in line for line in in_words(found, preset, "a").chosen)


def test_an_answer_has_three_sentences_but_no_severe_finding_is_left_out() -> None:
    def shown(ranks: float) -> Finding:
        return Finding(kind=Kind.SHOWN, place="gloo", numbers={"primitives": 3.0, "ranks": ranks, "refused": 0.0})

    def wrong(trial: str) -> Finding:
        return Finding(kind=Kind.WRONG_VALUES, severity="critical", trials=(trial,), numbers={"elements": 1.0})

    def told(*findings: Finding) -> str:
        return " ".join(answer(msgspec.structs.replace(results({}), findings=[*findings])))

    both = told(shown(2.0), wrong("a"), shown(3.0), wrong("b"))
    assert "do not trust the times of a:" in both.lower()
    assert "do not trust the times of b:" in both.lower()
    many = [shown(2.0), Finding(kind=Kind.WAYS_ALIKE, numbers={"ranks": 2.0})] * 2
    assert len(answer(msgspec.structs.replace(results({}), findings=many))) == 3


def test_checks_of_a_watched_training_are_named_by_what_came_of_them() -> None:
    states = {"loss": "right", "in sync": "wrong", "accumulation": "does not apply", "order": "right"}
    checks = [Light(name=name, state=state) for name, state in states.items()]  # type: ignore[arg-type]
    [repeat] = results({}).trials[0].repeats
    told = lights(msgspec.structs.replace(repeat, checks=checks))
    assert told == "checks failed: in sync; passed: loss, order; not applicable: accumulation"
    assert lights(msgspec.structs.replace(repeat, checks=[])) == ""


def published_beside(*references: dict[str, Any]) -> tuple[Results, Preset]:
    """Trial a took 0.03 s with steps of 10 ms, b 0.06 s with steps of 20 ms; c failed."""
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "reference": list(references)})
    return results_for(preset, journal("a"), journal("b", step_ms=20), failure("c")), preset


A = {"trial": "a", "train_time_s": 3.0, "step_ms": 1040, "source": "a demo"}
B = {"trial": "b", "train_time_s": 1.5, "step_ms": 700.5}


def published(results: Results, preset: Preset) -> list[str]:
    return [note.text for note in notes(results, preset) if note.kind == "published"]


def test_a_published_step_stands_beside_ours() -> None:
    source, first, second = published(*published_beside(A, B))
    assert source == "published: a demo"
    assert first == (
        "published: a: 0.03 s here, 3.00 s published (0.01 times as long); ratio 1.00 here, 1.00 published; "
        "a step 10.00 ms here, 1040 ms published"
    )
    assert second.endswith("ratio 2.00 here, 0.50 published; a step 20.00 ms here, 700.5 ms published")


def test_what_is_not_known_here_or_failed_has_only_what_was_published() -> None:
    results, preset = published_beside(A)
    unknown = edited(results, repeat=lambda *_: {"step_ms": None})
    assert "a step" not in published(unknown, preset)[1]
    results, preset = published_beside({"trial": "c", "train_time_s": 2.0, "step_ms": 5})
    assert published(results, preset) == ["published: c: failed here, 2.00 s published"]
