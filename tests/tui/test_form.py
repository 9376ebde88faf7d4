"""The form has every field of a trial: the common ones at once, the others once it has the focus; and bottlenecks."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Select, Static

from ddptui.config.preset import Preset
from ddptui.config.trial import TRIAL_FIELDS, Bottleneck
from ddptui.store.presets import load
from ddptui.tui.app import Console
from ddptui.tui.draft import COMMON, LABELS, OTHERS, REPEATS, offered
from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.fields import Field, InjectedLine
from ddptui.tui.widgets.lists import PresetList
from ddptui.tui.widgets.tables import LEFT, TrialTable
from ddptui.tui.widgets.trial_form import TrialForm
from tests.tui.opened import play_in_lab, seen, until

SIZES = [(80, 24), *(pytest.param(size, marks=pytest.mark.rare) for size in ((60, 16), (120, 40)))]
LEFT_OUT = {
    "name": "trials cannot share a name",
    "primitives": "it makes a preset of another kind, whose other fields mean something else",
}
TWO_DELAYS = """
title = "Two delays"
[[trial]]
name = "one"
launch = "single"
[[trial]]
name = "two"
[[trial.bottleneck]]
at = "backward"
ranks = [1]
sleep_ms = 20
from_step = 5
[[trial.bottleneck]]
at = "data"
ranks = [0]
sleep_ms = 5
"""


@pytest.fixture
def two_delays(tmp_path: Path) -> Path:
    """One's own preset, two-delays."""
    path = tmp_path / "config" / "ddptui" / "presets" / "two-delays.toml"
    path.parent.mkdir(parents=True)
    path.write_text(TWO_DELAYS, encoding="utf-8")
    return path


def field(lab: Lab, key: str) -> Field:
    return lab.query_one(f"#{key}", Field)


async def edit(pilot: Pilot[int], lab: Lab) -> None:
    """Go to the form, which then has all fields."""
    await pilot.press("e")
    await until(pilot, lambda: lab.query(f"#{OTHERS[-1]}"))


async def answer(pilot: Pilot[int], lab: Lab, key: str, text: str) -> None:
    field(lab, key).answer.value = text
    await pilot.pause()


async def choose(pilot: Pilot[int], lab: Lab, name: str) -> None:
    lab.query_one(PresetList).choose(name)
    await pilot.pause()


def command(lab: Lab) -> str:
    return str(lab.query_one("#command Static", Static).content).partition("\n")[0]


def meaning(lab: Lab) -> str:
    return str(lab.query_one("#meaning", Static).content)


def reasons(lab: Lab) -> dict[str, str]:
    """Why trials are left without the bottleneck, as the table of trials says."""
    table = lab.query_one(TrialTable)
    if LEFT not in table.columns:
        return {}
    return {str(row.key.value): str(table.get_cell(row.key, LEFT)) for row in table.ordered_rows}


def test_every_field_of_a_trial_is_in_one_place_or_left_out_for_a_reason() -> None:
    assert sorted([*COMMON, *OTHERS, *LEFT_OUT]) == sorted([*TRIAL_FIELDS, REPEATS])


def test_labels_have_room_and_are_told_apart() -> None:
    labels = [LABELS.get(key, key) for key in (*COMMON, *OTHERS)]
    assert len({*labels}) == len(labels)
    assert max(map(len, labels)) <= 14


def test_the_other_fields_are_made_once_the_form_has_the_focus() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        assert not lab.query("#lr")
        await edit(pilot, lab)
        assert [each.id for each in lab.query("#all Field")] == [*COMMON, *OTHERS]
        await choose(pilot, lab, "who-waits")
        await edit(pilot, lab)
        assert len(lab.query("#lr")) == 1

    play_in_lab(scenario)


def test_what_is_typed_while_the_other_fields_are_made_stays() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        form = lab.query_one(TrialForm)
        others, form._others = form._others, ()
        form.call_next(form._add, others)
        field(lab, "steps").answer.value = "30"  # the form hears of it once it has them all
        await edit(pilot, lab)
        await until(pilot, lambda: "--set steps=30" in command(lab))
        assert field(lab, "steps").text == "30"

    play_in_lab(scenario)


@pytest.mark.parametrize("size", SIZES)
def test_a_field_is_reached_and_filled_in_by_keyboard(size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        while not field(lab, "lr").answer.has_focus:
            await pilot.press("tab")
        await pilot.press(*"0.125")
        await until(pilot, lambda: "* lr" in seen(app) and "0.125" in seen(app))
        assert "--set lr=0.125" in command(lab)
        assert "lr: learning rate" in meaning(lab)
        assert "lr: learning rate" in seen(app)

    play_in_lab(scenario, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_field_is_filled_in_with_the_mouse(size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        if size[1] < 40:  # the form shows when its key in the foot is clicked
            place = seen(app).splitlines()[-1].index("Change")
            await pilot.click(offset=(place, size[1] - 1))
        else:
            await pilot.click("#epochs Input")
        await until(pilot, lambda: lab.query("#compile") and field(lab, "compile").region.height)
        field(lab, "compile").scroll_visible(animate=False)  # as the mouse wheel does
        await pilot.pause()
        select = field(lab, "compile").answer
        assert isinstance(select, Select)
        await pilot.click(select)
        await until(pilot, lambda: select.expanded)
        await until(pilot, lambda: "true" in seen(app))
        lines = seen(app).splitlines()
        row = next(number for number, line in enumerate(lines) if "true" in line)
        await pilot.click(offset=(lines[row].index("true"), row))
        await until(pilot, lambda: "--set compile=true" in command(lab))

    play_in_lab(scenario, size)


def test_a_change_stays_with_its_preset() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        await answer(pilot, lab, "batch_size", "32")
        assert field(lab, "batch_size").has_class("-changed")
        await choose(pilot, lab, "who-waits")
        assert field(lab, "batch_size").text is None
        assert not field(lab, "batch_size").has_class("-changed")
        await choose(pilot, lab, "quickstart")
        assert field(lab, "batch_size").text == "32"
        assert field(lab, "batch_size").has_class("-changed")

    play_in_lab(scenario)


def test_f5_goes_to_the_field_that_a_refusal_is_about() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        await answer(pilot, lab, "threads", "many")
        await pilot.press("f5")
        await until(pilot, lambda: field(lab, "threads").answer.has_focus)
        await until(pilot, lambda: "! threads" in seen(app))
        assert 'threads: expected an integer, got "many"' in seen(app)

    play_in_lab(scenario)


def test_only_fields_that_mean_something_are_offered() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        assert field(lab, "momentum").display
        assert not field(lab, "composites").display
        assert not field(lab, "env").display
        assert field(lab, "gradient_as_bucket_view").display  # of its trial ddp
        await answer(pilot, lab, "strategy", "ring")
        assert not field(lab, "gradient_as_bucket_view").display
        await answer(pilot, lab, "strategy", "ddp")
        assert field(lab, "gradient_as_bucket_view").display
        await choose(pilot, lab, "primitives-measure")
        assert field(lab, "composites").display
        assert not field(lab, "momentum").display

    play_in_lab(scenario)


def test_each_field_has_an_answer_of_its_kind() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        chosen = {each.id for each in lab.query(Field) if isinstance(each.answer, Select)}
        assert {"amp", "compile", "device", "mistake", "launch", "fault", "optimizer"} <= chosen
        assert not {"lr", "shape", "operations", "composites", "data_dir", "command", "epochs"} & chosen

    play_in_lab(scenario)


def test_words_with_commas_and_words_of_a_shell_become_lists() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await edit(pilot, lab)
        await answer(pilot, lab, "dataset", "random")
        await answer(pilot, lab, "shape", "1, 28, 28")
        assert "'shape=[1, 28, 28]'" in command(lab)
        assert made(lab).trials[0].shape == (1, 28, 28)
        await choose(pilot, lab, "primitives-see")
        await choose(pilot, lab, "quickstart")
        assert field(lab, "shape").text == "1, 28, 28"

    play_in_lab(scenario)


def made(lab: Lab) -> Preset:
    preset = lab._validation.preset
    assert preset is not None, lab._validation.reason
    return preset


def test_a_bottleneck_goes_to_the_trials_that_can_have_it_and_the_table_says_why_not_to_the_others() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        assert reasons(lab) == {}
        await answer(pilot, lab, "bottleneck", "put in")
        delay = Bottleneck(at="aggregate", ranks=(1,), sleep_ms=10)
        assert [trial.bottleneck for trial in made(lab).trials] == [(), (delay,), (delay,)]
        assert reasons(lab) == {
            "one-process": "no rank 1: trial one-process has only rank 0",
            "all_reduce": "",
            "ddp": "",
        }
        assert lab._validation.prepared is not None
        assert """--set 'bottleneck=[{at = "aggregate", ranks = [1], sleep_ms = 10}]'""" in command(lab)
        await answer(pilot, lab, "ranks", "7")
        assert "no rank 7" in str(lab.query_one("#reason", Static).content)  # of any
        await answer(pilot, lab, "bottleneck", "none")
        assert reasons(lab) == {}

    play_in_lab(scenario)


@pytest.mark.parametrize("name", ["launch-modes", "primitives-see", "bottleneck-where", "slow-link", "who-waits"])
def test_every_kind_of_preset_takes_a_bottleneck(name: str) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, name)
        await answer(pilot, lab, "bottleneck", "put in")
        if name == "primitives-see":  # where no rank trains, only a link can be slow
            await answer(pilot, lab, "at", "link")
        assert any(trial.bottleneck for trial in made(lab).trials)

    play_in_lab(scenario)


def test_two_delays_of_a_preset_are_two_lines_of_the_form(two_delays: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "two-delays")
        await answer(pilot, lab, "bottleneck", "put in")
        await until(pilot, lambda: len(lab.query(InjectedLine)) == 2)
        assert made(lab) == load(str(two_delays))
        assert reasons(lab)["one"] == "no rank 1: trial one has only rank 0"
        lab.query(InjectedLine).first().query_one("#amount", Field).answer.value = "30"
        await pilot.pause()
        first, second = made(lab).trials[1].bottleneck
        assert first == Bottleneck(at="backward", ranks=(1,), sleep_ms=30, from_step=5)
        assert second == load(str(two_delays)).trials[1].bottleneck[1]

    play_in_lab(scenario)


@pytest.mark.parametrize("size", SIZES)
def test_lines_are_added_and_removed_by_keyboard(size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "who-waits")
        await pilot.press("e")
        while not field(lab, "bottleneck").answer.has_focus:
            await pilot.press("tab")
        await pilot.press("enter", "end", "enter")
        await until(pilot, lambda: field(lab, "bottleneck").text == "put in" and lab.query(InjectedLine))
        begun = len(lab.query(InjectedLine))
        while getattr(app.focused, "id", "") != "another":
            await pilot.press("tab")
        await pilot.press("enter")
        await until(pilot, lambda: len(lab.query(InjectedLine)) == begun + 1)
        await until(pilot, lambda: len(made(lab).trials[0].bottleneck) == begun + 1)
        await pilot.press("tab", *"0")  # at the end of what the line above it has
        await until(pilot, lambda: "on ranks" in seen(app))
        while getattr(app.focused, "id", "") != "remove":
            await pilot.press("tab")
        await pilot.press("enter")
        await until(pilot, lambda: len(made(lab).trials[0].bottleneck) == begun)
        while lab.query(InjectedLine):
            while getattr(app.focused, "id", "") != "remove":
                await pilot.press("tab")
            await pilot.press("enter")
            await pilot.pause()
        assert field(lab, "bottleneck").text == "none"
        assert "--set 'bottleneck=[]'" in command(lab)

    play_in_lab(scenario, size)


def test_a_fault_is_put_in_with_the_mouse() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "ddp-by-hand")
        await edit(pilot, lab)
        await answer(pilot, lab, "fault", "put in")
        await until(pilot, lambda: lab.query("#step"))
        await answer(pilot, lab, "kind", "raise")
        await answer(pilot, lab, "step", "9")
        assert '{kind = "raise", rank = 1, step = 9}' in command(lab)
        assert {(fault.kind, fault.rank, fault.step) for trial in made(lab).trials for fault in trial.fault} == {
            ("raise", 1, 9)
        }
        await pilot.click("#another")
        await until(pilot, lambda: len(made(lab).trials[0].fault) == 2)

    play_in_lab(scenario)


def test_the_form_itself_is_never_a_stop_of_the_tab_key() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        form = lab.query_one(TrialForm)
        await edit(pilot, lab)
        assert offered(load("quickstart"), load("quickstart")) > {"lr"}
        assert not [each for each in form.query("#all, .fields") if each.can_focus]

    play_in_lab(scenario)


@pytest.mark.parametrize(
    "rest", ["every=2 every=3", "sleep_ms=3", "ranks=1", "at=link", "every=2#3", f"x=a{'.a' * 20}"]
)
def test_a_bottleneck_that_cannot_be_is_there_when_one_comes_back(rest: str, two_delays: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await answer(pilot, lab, "bottleneck", "put in")
        await until(pilot, lambda: lab.query("#rest"))
        await answer(pilot, lab, "rest", rest)
        why = str(lab.query_one("#reason", Static).content)
        assert why.startswith("! bottleneck")
        await choose(pilot, lab, "two-delays")
        await choose(pilot, lab, "quickstart")
        await until(pilot, lambda: lab.query("#rest"))
        if "." not in rest:  # of words with so many dots only the usual line comes back
            assert field(lab, "rest").answer.value == rest
            assert str(lab.query_one("#reason", Static).content) == why

    play_in_lab(scenario)
