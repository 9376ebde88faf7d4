"""The table and its exports: what they say, and that no line is wider than it may be."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck
from ddptui.config.values import describe_bottleneck
from ddptui.report.notes import answer, note_lines
from ddptui.report.table import as_json, markdown, text
from ddptui.text.tables import RED
from ddptui.wire.messages import Audit, Done
from tests.support.builders import (
    audit,
    audit_without_numbers,
    done,
    failure,
    journal,
    preset_of,
    results_for,
    two_trials,
    with_done,
)
from tests.support.printed import cells_of, csv_rows, header_of, table_of

LATE = {"at": "aggregate", "ranks": [1], "sleep_ms": 10, "per": "call"}
MARKS = re.compile("[\ud900-\ud96b]")  # of styles
NOTHING = "–"


def told_in(results: Results, preset: Preset) -> list[str]:
    """The notes but for cautions, since these journals are short, and for the one on the column of losses."""
    return [note for note in note_lines(results, preset) if "caution" not in note]


def ran(**fields: Any) -> tuple[Results, Preset]:
    """Trial `a` took 0.03 s twice, `b` 0.06 and 0.09 s."""
    preset = two_trials(**fields)
    b = [journal("b", 1, step_ms=20), journal("b", 2, step_ms=30)]
    return results_for(preset, journal("a", 1), journal("a", 2), *b), preset


def everything() -> tuple[Results, Preset]:
    """Every column has something to say; names are as long as they may be."""
    long = "a-trial-with-the-longest-name-that-a-folder-may-have-by-the-rules"[:64]
    table = {
        "title": "?",
        "repeats": 2,
        "trial": [
            {
                "name": long,
                "bottleneck": [LATE, LATE],
                "average": "parameters",
                "every": 100,
                "mistake": "no_set_epoch",
            },
            {"name": "dp", "launch": "dp"},
            {"name": "c"},
            {"name": "d"},
        ],
        "reference": [{"trial": long, "train_time_s": 2}, {"trial": "dp", "train_time_s": 3, "source": "a book"}],
    }
    preset = preset_of(table)
    told = done(1, audit=audit(error=0.123456, scaled_error=0.1), orders=("1", "1"))
    journals = [with_done(journal(long, repeat), told) for repeat in (1, 2)]
    parts = done(0, sub_batch=9), done(1, sub_batch=7)
    journals += [with_done(journal("dp", repeat), *parts) for repeat in (1, 2)]
    return results_for(preset, *journals, failure("c")), preset


@given(st.integers(60, 200), st.booleans())
def test_no_line_of_the_table_is_wider_than_it_may_be(width: int, color: bool) -> None:
    for results, preset in (everything(), ran()):
        table = table_of(text(results, preset, width, color=color))
        assert len(table) == 2 + len(preset.trials)
        assert max(len(MARKS.sub("", line)) for line in table) <= width


def test_a_wide_terminal_shows_every_column() -> None:
    assert header_of(text(*everything(), 400)) == [
        "trial", "launch", "ranks", "strategy", "backend", "averages", "mistake", "sub-batch", "bottleneck", "slept",
        "train s", "min…max", "ratio", "publ.", "speed-up", "start s", "samples/s", "step ms", "batch time", "aggr. ms",
        "loss", "acc. %", "in sync", "average", "order", "Δ s", "Δ work", "Δ wait", "Δ transfer", "Δ rest",
    ]  # fmt: skip


def test_where_space_is_short_the_least_telling_columns_go_first() -> None:
    results, preset = ran()
    shown = {width: set(header_of(text(results, preset, width))) for width in range(40, 201)}
    fewest = {column: min(width for width in shown if column in shown[width]) for column in shown[200]}
    order = ["train s", "in sync", "acc. %", "aggr. ms", "samples/s", "speed-up", "strategy"]
    assert sorted(order, key=lambda column: fewest[column]) == order
    results, preset = with_last_words(audit=audit(error=0.1), orders=("1", "1"), mistake="no_set_epoch")
    for width in range(40, 201):
        shown = set(header_of(text(results, preset, width)))
        assert shown >= {"in sync", "average", "order"} or not shown & {"acc. %", "step ms", "launch", "mistake"}
    for error, first, last in ((0.0, "acc. %", "average"), (0.1, "average", "acc. %")):
        shown = [set(header_of(text(*with_last_words(audit=audit(error=error)), width))) for width in range(40, 201)]
        assert any(first in header and last not in header for header in shown)
        assert not any(last in header and first not in header for header in shown)
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b", "batch_size": 128}]})
    results = results_for(preset, journal("a"), journal("b"))
    for width in range(40, 201, 4):
        shown = set(header_of(text(results, preset, width)))
        assert shown >= {"speed-up", "samples/s"} or not shown & {"aggr. ms", "step ms"}


def test_a_name_that_is_too_long_is_cut_and_a_failure_stands_out_in_color() -> None:
    _, preset = everything()
    slow = results_for(preset, journal(preset.trials[0].name, step_ms=400_000))
    lines = table_of(text(slow, preset, 60))
    assert re.fullmatch(r"a-trial-with\S*…\s+1200\.00.*", lines[2])
    results, preset = everything()
    assert not MARKS.search(text(results, preset, 120))
    assert RED in text(results, preset, 120, color=True)


def test_the_table_stands_between_the_title_and_the_notes() -> None:
    shown = text(*ran(title="Which one?"), 120)
    assert shown.startswith("Which one?\n\nb took 2.50 ± 0.50 times as long as a; ")
    assert shown.index("The loss is the same in all") < shown.index("\ntrial ")
    lines = note_lines(*ran(title="Which one?"))
    how_to_read = lines.index("ratio, speed-up: relative to a; each repeat has its own ratio: the median is shown")
    assert lines[0].startswith("caution, all trials: ")
    assert how_to_read > 0
    assert shown.endswith("\n".join(["\n", *lines]) + "\n")
    assert [line.split()[0] for line in table_of(shown)[2:]] == ["a", "b"]


def test_cells_are_medians_over_repeats_and_without_figures_say_why() -> None:
    b = cells_of(markdown(*ran()), "b")
    assert b["train s"] == "0.07 ±0.01"  # of 0.06 and 0.09: 0.075, a hair below in binary
    assert b["min…max"] == "0.06…0.09"
    assert b["ratio"] == "2.50 ±0.50"  # of 2 and 3
    assert b["speed-up"] == "0.42"  # of 1/2 and 1/3
    assert (b["start s"], b["samples/s"], b["step ms"], b["aggr. ms"]) == ("2.0 warm", "667", "25.00", "4.00")
    assert (b["loss"], b["acc. %"], b["in sync"]) == ("0.667", "75.0", "yes")
    assert (b["launch"], b["ranks"], b["strategy"]) == ("spawn", "2", "all_reduce")
    results, preset = ran(repeats=1)
    assert "min…max" not in markdown(results, preset)
    shown = markdown(*everything())
    assert cells_of(shown, "c")["train s"] == "failed"
    assert cells_of(shown, "d")["train s"] == "–"
    assert cells_of(shown, "d")["ratio"] == NOTHING


def test_published_times_and_delays_are_told_in_cells() -> None:
    shown = markdown(*everything())
    [long] = [line.split(" | ")[0].strip("| ") for line in shown.splitlines() if line.startswith("| a-trial")]
    assert cells_of(shown, long)["publ."] == "1.00"
    assert cells_of(shown, "dp")["publ."] == "1.50"
    assert cells_of(shown, "c")["publ."] == NOTHING
    assert "- published: a book" in shown.splitlines()
    assert "publ." not in markdown(*ran(reference=[{"trial": "b", "train_time_s": 3}]))
    late = preset_of({"trial": [{"name": "a", "bottleneck": [LATE]}]})
    slept = [*journal("a")[:-2], done(1, bottleneck_fired=6, bottleneck_ns=61_000_000), journal("a")[-1]]
    cells = cells_of(markdown(results_for(late, slept), late), "a")
    assert cells["bottleneck"] == "aggregate 10 ms/call on 1"
    assert re.fullmatch(r"61 ms, 6×", cells["slept"])


LAST_WORDS = {field.name for field in msgspec.structs.fields(Done)}


def with_last_words(**changes: Any) -> tuple[Results, Preset]:
    """One trial whose second rank ends with other words than the first. What is no word of it is the trial's."""
    words = {key: value for key, value in changes.items() if key in LAST_WORDS}
    fields = {key: value for key, value in changes.items() if key not in LAST_WORDS}
    preset = preset_of({"trial": [{"name": "a"} | fields]})
    return results_for(preset, with_done(journal("a"), done(1, **words))), preset


@pytest.mark.parametrize(
    ("fields", "cell"),
    [({"average": "parameters"}, "parameters"), ({"average": "parameters", "every": 8}, r"parameters\D+8\b.*")],
)
def test_what_is_averaged_is_said_where_it_is_not_the_gradients_of_each_step(fields: dict[str, Any], cell: str) -> None:
    preset = preset_of({"trial": [{"name": "a"} | fields, {"name": "b"}]})
    shown = markdown(results_for(preset, journal("a"), journal("b")), preset)
    assert re.fullmatch(cell, cells_of(shown, "a")["averages"])
    assert cells_of(shown, "b")["averages"] == NOTHING


def test_mistakes_and_the_samples_of_replicas_have_a_column() -> None:
    shown = markdown(*everything())
    assert (cells_of(shown, "dp")["sub-batch"], cells_of(shown, "d")["sub-batch"]) == ("9+7", NOTHING)
    preset = preset_of({"trial": [{"name": "a", "mistake": "divide_twice"}, {"name": "b"}]})
    shown = markdown(results_for(preset, journal("a"), journal("b")), preset)
    assert (cells_of(shown, "a")["mistake"], cells_of(shown, "b")["mistake"]) == ("divide_twice", NOTHING)


OFF = audit(error=0.1234, scaled_error=0.1, own_error=0.1)


@pytest.mark.parametrize(
    ("fields", "told", "cell"),
    [
        ({}, audit(), "right"),
        ({"strategy": "ddp_fp16"}, audit(error=0.000321), "± 0.0003"),
        ({"strategy": "ddp_powersgd"}, OFF, "off 12%"),
        ({}, audit_without_numbers(), "not finite"),
        ({}, OFF, "off 12.34%"),
        ({"strategy": "none"}, audit(error=0.7, scaled_error=0.5, own_scale=1.0, own_error=0.0), "none taken"),
        ({}, audit(error=0.7, scale=2.0), "2 times it"),
        ({}, audit(error=0.3, scale=1 / 3), "0.3333 times it"),
    ],
)
def test_what_was_left_in_place_of_the_mean_is_told(fields: dict[str, Any], told: Audit, cell: str) -> None:
    assert cells_of(markdown(*with_last_words(audit=told, **fields)), "a")["average"] == cell


def test_an_order_is_shown_if_it_is_the_same_in_every_epoch() -> None:
    assert cells_of(markdown(*with_last_words(orders=("1", "1"))), "a")["order"] == "same"
    results, preset = with_last_words(orders=("1", "2"))
    assert "order" not in header_of(text(results, preset, 400))
    assert told_in(results, preset) == []


def test_ranks_that_do_not_agree_are_shown() -> None:
    parameters = with_last_words(parameters={"weight": "x", "bias": "def"})
    assert cells_of(markdown(*parameters), "a")["in sync"] == "no"
    buffers = with_last_words(buffers={"running_mean": "x"})
    assert cells_of(markdown(*buffers), "a")["in sync"] == "buffers differ"


def test_every_red_light_of_every_trial_is_a_note_of_its_own() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    wrong = done(1, parameters={"weight": "x", "bias": "def"}, audit=audit(error=0.7, scale=2.0), orders=("1", "1"))
    journals = [with_done(journal("a"), wrong), journal("b"), with_done(journal("c"), done(0, orders=("2", "2")))]
    said = [
        note for note in told_in(results_for(preset, *journals), preset) if note != "ratio, speed-up: relative to a"
    ]
    assert [note[:30] for note in said] == [
        "a: the ranks differ in weight"[:30],
        "a: gradients are 2 times the mean"[:30],
        "a, c: the samples came in the same order"[:30],
    ]


def test_the_lights_are_those_of_the_last_repeat() -> None:
    preset = two_trials(repeats=2)
    wrong, right = done(1, audit=audit(error=0.7, scale=2.0)), done(1, audit=audit())
    journals = [
        with_done(journal("a", 1), wrong),
        with_done(journal("a", 2), right),
        with_done(journal("b", 1), right),
        with_done(journal("b", 2), wrong),
    ]
    results = results_for(preset, *journals)
    assert [cells_of(markdown(results, preset), name)["average"] for name in ("a", "b")] == ["right", "2 times it"]
    assert [note for note in note_lines(results, preset) if "times the mean" in note] == [
        "b: gradients are 2 times the mean: they are the sum, the division is missing"
    ]


@pytest.mark.parametrize(("device", "marked"), [("cpu (thread, CPU stand-in)", True), ("cuda:0", False)])
def test_dp_without_a_gpu_is_marked_as_a_stand_in(device: str, marked: bool) -> None:
    preset = preset_of({"trial": [{"name": "a", "launch": "dp"}]})
    results = results_for(preset, journal("a", device=device))
    footnote = "¹ threads, CPU stand-in for nn.DataParallel"
    assert (footnote in note_lines(results, preset)) is marked
    assert ("a ¹" in text(results, preset, 60)) is marked


def test_which_steps_have_a_time_of_aggregation() -> None:
    preset = preset_of({"trial": [{"name": "a", "strategy": "ddp"}, {"name": "b"}]})
    results = results_for(preset, journal("a"), journal("b"))
    assert cells_of(markdown(results, preset), "a")["aggr. ms"] == "in bwd"
    preset = preset_of({"trial": [{"name": "a", "every": 4}, {"name": "b"}, {"name": "c", "strategy": "none"}]})
    results = results_for(preset, journal("a"), journal("b"), journal("c"))
    shown = markdown(results, preset)
    assert [cells_of(shown, name)["aggr. ms"] for name in ("a", "b", "c")] == ["in some", "4.00", NOTHING]
    results, preset = with_last_words(strategy="ddp", mistake="average_again")
    assert cells_of(markdown(results, preset), "a")["aggr. ms"] == "4.00"
    assert told_in(results, preset) == []


def test_an_interrupted_run_says_that_it_is_not_whole() -> None:
    preset = two_trials()
    whole, cut = ran()[0], results_for(preset, journal("a"))
    assert "The run was interrupted: 1 of 2 trials have figures." in answer(cut)
    assert not any("interrupted" in words for words in answer(whole))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"at": "start", "ranks": (1,), "sleep_ms": 1}, "start 1 ms on 1"),
        ({"at": "forward", "ranks": (0, 2), "sleep_ms": 2.5, "every": 10}, "forward 2.5 ms/10 steps on 0,2"),
        ({"at": "aggregate", "ranks": (1,), "sleep_ms": 10, "per": "call"}, "aggregate 10 ms/call on 1"),
        ({"at": "data", "ranks": (1,), "sleep_ms": 10, "jitter": "uniform"}, "data ~10 ms on 1"),
    ],
)
def test_a_bottleneck_is_described_in_a_few_words(fields: dict[str, Any], words: str) -> None:
    bottleneck = msgspec.convert(fields, Bottleneck)
    assert describe_bottleneck([bottleneck]) == words
    assert describe_bottleneck([bottleneck, bottleneck]) == f"{words}, {words}"
    assert describe_bottleneck([]) == NOTHING


def test_markdown_and_csv_have_a_row_for_every_trial() -> None:
    results, preset = everything()
    lines = [line for line in markdown(results, preset).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 4
    assert {line.count("|") for line in lines} == {30 + 1}
    assert re.fullmatch(r"(\| (:--|--:) )+\|", lines[1])
    assert "\n\n| trial |" in markdown(results, preset)
    *_, c, d = csv_rows(*everything())
    assert (c["trial"], c["status"], c["repeat"]) == ("c", "failed", "")
    assert c["error"] == "rank 1 was killed by SIGKILL\nthe log's end"
    assert (d["trial"], d["status"], d["train_time_s"]) == ("d", "skipped", "")


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ({"audit": audit(error=1.25e-6, scale=1 - 1e-9), "orders": ("1", "2")}, ("True", 1.25e-6, 1 - 1e-9, "True")),
        ({"audit": audit(error=0.7, scale=2.0), "orders": ("1", "1")}, ("False", 0.7, 2.0, "False")),
        ({"audit": OFF, "strategy": "ddp_powersgd"}, ("", 0.1234, 1.0, "")),
    ],
)
def test_csv_tells_of_the_mean_and_whether_the_order_was_new(words: dict[str, Any], cells: tuple[object, ...]) -> None:
    [row] = csv_rows(*with_last_words(**words))
    columns = ("averaging_right", "averaging_error", "averaging_scale", "reshuffled")
    assert tuple(row[column] for column in columns) == tuple(map(str, cells))


def test_json_reads_back_as_the_same_results() -> None:
    for results, preset in (everything(), ran()):
        read = msgspec.json.decode(as_json(results, preset), type=Results)
        assert as_json(read, preset) == as_json(results, preset)
        assert read.trials[0].repeats == results.trials[0].repeats
