"""The pane Where: on which lines the ranks work, and where each is when the user asks."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from ddptui.analysis.results import PlaceTime
from ddptui.config.settings import KEYS
from ddptui.host import source
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets import texts
from ddptui.tui.widgets.texts import MOST_STACKS, WherePane
from ddptui.wire.messages import Place, Stood
from ddptui.wire.records import Message
from tests.tui.opened import on, seen, shows, tick
from tests.tui.recordings import SampledAsItGoes, ToldAsItGoes, at, over

ASK = KEYS["stacks"].usual
INNER = Place("train.py", 28, "augment", True)
CALLER = Place("train.py", 37, "main", True)
TORCH = [Place("/torch/_tensor.py", line, "Tensor.backward", False) for line in (5, 6)]


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "source_line", lambda file, line, host, *_: f"line {line} in {file}" * bool(host))


def under_way(kind: type[ToldAsItGoes] = SampledAsItGoes, trial: str = "late", step: int = 70) -> RunScreen:
    return RunScreen(kind(at(trial, step)))


async def shown(
    screen: RunScreen, *keys: str, size: tuple[int, int] = (120, 40), messages: Sequence[Message] = ()
) -> str:
    async with on(screen, size) as (app, pilot, _):
        await pilot.press(*keys)
        screen.watched.add(messages)
        await tick(pilot, screen)
        return seen(app)


def stood(rank: int, stack: Sequence[Place], asked: int = 1, at_ns: int = 10**18) -> Stood:
    return Stood(rank=rank, at_ns=at_ns, asked=asked, stack=tuple(stack))


def rows(text: str) -> Iterator[list[str]]:
    """The cells of the lines of the pane, between its borders."""
    of_pane = text.partition("Where")[2].splitlines()[1:]
    return (line.strip("│ ").split("  ") for line in of_pane if line.startswith("│"))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_places_are_shown_the_most_costly_first(size: tuple[int, int]) -> None:
    text = await shown(under_way(), "7", size=size)
    header, first, *_ = [[cell.strip() for cell in row if cell.strip()] for row in rows(text)]
    assert header[:5] == ["where", "phase", "rank 0 ms", "rank 1 ms", "called by"]
    assert first[:2] == ["backward, train.py:20", "backward"]
    assert float(first[3]) > 10 > float(first[2])  # rank 1 sleeps for 12 ms there
    assert first[4] == "main, train.py:60"
    assert ("line 20 in train.py" in text) == (size[0] > 80)


async def test_without_a_sample_there_is_no_pane_until_a_key_asks_the_ranks() -> None:
    async with on(under_way(ToldAsItGoes)) as (app, pilot, screen):
        await pilot.press("7")
        assert "7 Where" not in seen(app)
        assert "─ 1 Ranks" in seen(app)
        await pilot.press(ASK)
        await shows(pilot, "asked: each rank answers")
        assert screen.feed.controls is not None
        assert [*screen.feed.controls.requests(screen.watched.live.launched_ns)] == [None]


async def test_a_replay_has_no_ranks_to_ask() -> None:
    screen = RunScreen(at("late", 70))
    assert "where each rank is now" not in await shown(screen, ASK)
    assert screen.check_action("stacks", ()) is False
    assert under_way().check_action("stacks", ()) is True


async def test_stacks_are_shown_one_below_the_other() -> None:
    answers = [stood(0, [*TORCH, INNER, CALLER, *TORCH]), stood(1, [CALLER])]
    text = await shown(under_way(), "7", "z", messages=answers)
    lines = [line.strip("│ ") for line in text.splitlines()]
    at = lines.index("Rank 0, 0 s ago")
    of_rank = [line.split("  ")[0] for line in lines[at + 1 : at + 6]]
    assert of_rank == [
        "Tensor.backward, _tensor.py:6",
        "augment, train.py:28",
        "main, train.py:37",
        "",
        "Rank 1, 0 s ago",
    ]
    assert "_tensor.py:5" not in text  # what torch calls itself
    assert "line 28 in train.py" in text
    assert "line 6 in" not in text
    assert "where " in text.partition("Rank 1")[2]  # the table follows


async def test_the_same_stack_is_shown_once_and_who_has_not_answered_is_said() -> None:
    answers = [stood(0, [INNER]), stood(1, [INNER])]
    assert "Ranks 0 and 1, 0 s ago" in await shown(under_way(), "7", "z", messages=answers)
    again = [*answers, stood(1, [], asked=2)]
    text = await shown(under_way(), "7", "z", messages=again)
    assert "Rank 0: no answer yet" in text
    assert "Rank 1: its Python code is not known" in text
    assert "augment, train.py:28" not in text


async def test_of_many_stacks_those_of_the_fewest_ranks_are_shown() -> None:
    async with on(under_way(), (200, 60)) as (_, pilot, screen):
        await pilot.press("7")
        live = screen.watched.live
        for rank in range(2, 64):
            live.ranks[rank] = msgspec.structs.replace(live.ranks[0], rank=rank)
        for rank in live.ranks:
            live.stood[rank] = stood(rank, [Place("train.py", rank, "augment", True)] if rank > 20 else [CALLER])
        found = texts.standings_of(screen.watched, screen.feed.now_ns())
        assert [each.ranks for each in found[:2]] == [[21], [22]]
        assert found[-1].ranks == [*range(21)]
        screen.tick()
        text = str(screen.query_one(WherePane).query_one("Static").render())
        assert text.count("s ago") == MOST_STACKS
        assert f"and {len(found) - MOST_STACKS} more stacks" in text


async def test_real_sources_are_read_for_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "source_line", source.source_line)
    text = await shown(under_way(), "7")
    assert "backward, train.py:20" in text
    assert "source" not in text.partition("7 Where")[2]


def sampled_result() -> ResultScreen:
    """Its second trial has places."""
    run, preset, results = over()
    place = PlaceTime(
        phase="data", place="augment, a.py:7", by="collate, a.py:9", file="a.py", line=7, last=7, ms={0: 0.5, 1: 12.5}
    )
    first, late, *others = results.trials
    repeats = [msgspec.structs.replace(repeat, places=[place] * 40) for repeat in late.repeats]
    trials = [first, msgspec.structs.replace(late, repeats=repeats), *others]
    return ResultScreen(run, preset, msgspec.structs.replace(results, trials=trials))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_result_has_the_places_of_its_trial(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "source_line", lambda *_: "long line " * 30)
    async with on(sampled_result(), size) as (app, pilot, screen):
        await pilot.press("p", "6")
        assert screen.panes.chosen == "table"  # the first trial has no places
        await pilot.press("4", "n")
        assert "augment, a.py:7" not in seen(app)
        await pilot.press("6")
        text = seen(app)
        assert "augment, a.py:7" in text
        assert "12.50" in text
        assert ("long line" in text) == (size[0] > 80)
        _, *lines = text.rpartition("6 Where in")[2].splitlines()
        of_table = [line.strip("│ ")[:7] for line in lines if line.startswith("│")]
        assert {*of_table} == {"where  ", "augment"}  # no line is wrapped
