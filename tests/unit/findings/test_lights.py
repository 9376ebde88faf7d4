"""The checks of a watched training, on made-up readings: each has a case that turns it red, and one that must not."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from ddptui.analysis.check_log import CheckLog, processes_of
from ddptui.analysis.finding import Finding, Kind
from ddptui.findings.checks import Checked
from ddptui.findings.words import short
from ddptui.wire.messages import Batch, Collective, Fingerprint, Step
from ddptui.wire.phases import PARTS
from tests.support import builders
from tests.support.builders import MS, hello
from tests.support.printed import long

AT = {part: number for number, part in enumerate(PARTS)}
USUAL = ("data", "forward", "backward", "aggregate", "optimizer")
Messages = list[Any]


def log_of(messages: Messages, ranks: int = 2, asked: int | None = None) -> CheckLog:
    log = CheckLog(asked=asked)
    for message in [*(hello(rank, world_size=ranks) for rank in range(ranks)), *messages]:
        log.add(message)
    return log


def reading(rank: int, step: int, **fields: Any) -> Fingerprint:
    usual = {
        "parameters": {"weight": "a", "bias": "b"},
        "gradients": {"weight": f"{step}", "bias": f"{step}"},
        "buffers": {},
        "ddp_groups": ((),),
        "ddp_called": True,
        "settings": {"learning rate": "0.1", "parameters": "100", "process group": "2"},
    }
    return Fingerprint(rank=rank, step=step, **(usual | fields))


def call(kind: str, at_ns: int, size: int = 400, group: tuple[int, ...] = (), bucket: int | None = None) -> Collective:
    times = {"called_ns": at_ns, "enter_ns": at_ns, "awaited_ns": at_ns, "exit_ns": at_ns + MS}
    return Collective(kind=kind, seq=0, bytes=size, group=group, bucket=bucket, **times)


def a_step(
    rank: int, number: int, *calls: tuple[str, dict[str, Any]], parts: Sequence[str] = USUAL, **fields: Any
) -> Step:
    """A step of parts of 10 ms. calls: the index of the part, or its name, and what is called there."""
    begin = number * 1_000
    places = [(parts.index(part) if isinstance(part, str) else part, options) for part, options in calls]
    collectives = tuple(call(at_ns=(begin + place * 10 + 1) * MS, **options) for place, options in places)
    usual = builders.step(rank, number, begin_ms=begin, end_ms=begin + len(parts) * 10, phases_ms=(10,) * 5, samples=4)
    pieces = tuple((AT[part], 10 * MS) for part in parts)
    return msgspec.structs.replace(usual, collectives=collectives, pieces=pieces, **fields)


IN_BACKWARD = ("backward", {"kind": "all_reduce", "bucket": 0})
BY_HAND = ("aggregate", {"kind": "all_reduce"})


def checked(
    messages: Messages, ranks: int = 2, asked: int | None = None
) -> tuple[dict[str, str], list[Kind], list[str]]:
    """The lights, the findings, and their words."""
    found = Checked(log_of(messages, ranks, asked))
    assert all(long(each) for each in found.findings)
    lights = {light.name: light.state for light in found.lights}
    return lights, [each.kind for each in found.findings], [short(each) for each in found.findings]


def training(
    of_rank: Callable[[int, int], dict[str, Any]] = lambda rank, step: {},
    calls: Sequence[tuple[Any, dict[str, Any]]] = (IN_BACKWARD,),
    steps: int = 10,
    **of_step: Any,
) -> Messages:
    """Readings and steps of two ranks. of_rank: fields of a rank's reading in a step."""
    messages: Messages = []
    for step in range(steps):
        for rank in range(2):
            messages += [reading(rank, step, **of_rank(rank, step)), a_step(rank, step, *calls, **of_step)]
    return messages


def apart(rank: int, step: int) -> dict[str, Any]:
    """Parameters and gradients of a rank's own."""
    of_rank = f"{rank}-{step}"
    gradients = {"weight": of_rank, "bias": of_rank}
    return {"parameters": {"weight": of_rank * (step > 0), "bias": "b"}, "gradients": gradients}


def test_a_training_in_step_has_no_red_light() -> None:
    lights, kinds, _ = checked(training())
    assert kinds == []
    assert lights == {
        "processes": "unknown", "loss": "right", "settings": "right", "in sync": "right", "average": "right",
        "buffers": "right", "samples": "unknown", "batch sizes": "unknown", "accumulation": "does not apply",
        "order": "unknown",
    }  # fmt: skip


def test_before_a_step_is_measured_nothing_is_said_of_agreement_and_without_readings_there_are_no_lights() -> None:
    lights, kinds, _ = checked(training(apart, (), warmup=True))
    assert (lights["in sync"], lights["average"], kinds) == ("unknown", "unknown", [])
    assert checked([a_step(rank, step) for step in range(5) for rank in (0, 1)]) == ({}, [], [])


@pytest.mark.parametrize(
    ("fields", "calls", "says"),
    [
        ({"ddp_called": False}, (), "none of 10 steps called a collective or the DDP's forward"),
        ({"ddp_groups": ()}, (), "none of 10 steps called a collective that could average them"),
        ({"ddp_groups": ()}, (("backward", {"kind": "all_reduce", "size": 8}),), "none of 10 steps"),  # the loss
        ({"ddp_groups": ()}, (("aggregate", {"kind": "all_reduce", "group": (0,)}),), "none of 10 steps"),
        ({"settings": {"process group": "none"}}, (), "no process has joined a process group"),
    ],
)
def test_ranks_that_train_for_themselves_are_named(fields: dict[str, Any], calls: Any, says: str) -> None:
    lights, kinds, words = checked(training(lambda rank, step: apart(rank, step) | fields, calls))
    assert kinds == [Kind.NOT_AVERAGED]
    assert says in words[0]
    assert (lights["in sync"], lights["average"]) == ("wrong", "wrong")


def moves_later(rank: int, step: int) -> dict[str, Any]:
    return {"parameters": {"weight": f"{rank * (step >= 4)}", "bias": "b"}}


OWN_START = {"parameters": {"weight": "{rank}", "bias": "b"}}
ONE_TENSOR = {"parameters": {"weight": "a", "bias": "{rank}{step}"}, "gradients": {"weight": "g", "bias": "{rank}"}}
OTHER_RATE = {"settings": {"learning rate": "{rank}.1", "weight decay": "0"}}


def filled(fields: dict[str, dict[str, str]]) -> Callable[[int, int], dict[str, Any]]:
    """Fields of a rank's reading with its number, and that of the step."""
    return lambda rank, step: {
        name: {key: text.format(rank=rank, step=step * rank) for key, text in texts.items()}
        for name, texts in fields.items()
    }


@pytest.mark.parametrize(
    ("of_rank", "kind", "says", "average"),
    [
        (filled(OWN_START), Kind.STARTED_APART, "The ranks began with different parameters", "right"),
        (moves_later, Kind.MOVED_APART, "The ranks' parameters differ since step 4", "right"),
        (filled(ONE_TENSOR), Kind.SOME_AVERAGED, "Some gradients are not averaged: bias", "wrong"),
        (apart, Kind.AVERAGE_DIFFERS, "Gradients differ between ranks although each step calls", "wrong"),
        (
            lambda *place: moves_later(*place) | filled(OTHER_RATE)(*place),
            Kind.SETTINGS_DIFFER,
            "learning rate 0.1 on rank 0, 1.1 on rank 1",
            "right",
        ),
    ],
)
def test_parameters_that_differ_have_one_cause(
    of_rank: Callable[[int, int], dict[str, Any]], kind: Kind, says: str, average: str
) -> None:
    lights, kinds, words = checked(training(of_rank))
    assert kinds == [kind]
    assert says in words[0]
    assert (lights["in sync"], lights["average"]) == ("wrong", average)


def test_where_gradients_are_not_known_it_is_not_said_that_they_are_averaged() -> None:
    def checked_with(*calls: tuple[str, dict[str, Any]]) -> tuple[dict[str, str], list[Kind], list[str]]:
        return checked(training(lambda *at: moves_later(*at) | {"gradients": {}}, calls))

    assert checked_with(IN_BACKWARD)[2] == ["The ranks' parameters differ since step 4: weight"]
    assert checked_with()[1] == [Kind.NOT_AVERAGED]
    assert checked_with(("forward", {"kind": "send"}))[0]["in sync"] == "does not apply"


def test_gradients_that_are_averaged_in_some_steps_only_are_named() -> None:
    messages = [each for each in training(apart, ()) if not isinstance(each, Step)]
    messages += [a_step(0, step, *[IN_BACKWARD] * (step % 4 == 0)) for step in range(12)]
    [words] = checked(messages)[2]
    assert words == "Gradients are averaged in 3 of 12 steps only; the ranks' parameters differ since step 1"


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        ({"ddp_groups": ()}, (("forward", {"kind": "all_reduce"}), IN_BACKWARD)),  # tensor parallel
        ({"ddp_groups": ()}, (("forward", {"kind": "send"}),)),  # a pipeline
        ({}, (("forward", {"kind": "all_to_all"}),)),  # experts
        ({}, (("backward", {"kind": "reduce_scatter"}),)),  # shards
        ({"ddp_hooks": ("post_localSGD_hook",)}, (IN_BACKWARD,)),
        ({"parameters": {}, "gradients": {}, "sharded": 6}, (IN_BACKWARD,)),
    ],
)
def test_ranks_that_are_meant_to_differ_have_no_red_light(fields: dict[str, Any], calls: Any) -> None:
    lights, kinds, _ = checked(training(lambda rank, step: apart(rank, step) | fields, calls))
    assert (lights["in sync"], lights["average"], kinds) == ("does not apply", "does not apply", [])


def test_parameters_that_are_averaged_themselves_have_no_red_light() -> None:
    def now_and_then(rank: int, step: int) -> dict[str, Any]:
        return apart(rank, step) | ({"parameters": {"weight": "same", "bias": "b"}} if step % 4 == 0 else {})

    lights, kinds, _ = checked(training(now_and_then, ()))
    assert (lights["in sync"], kinds) == ("does not apply", [])
    each_step = filled({"gradients": {"weight": "{rank}", "bias": "{rank}"}})
    lights, kinds, _ = checked(training(each_step, (("optimizer", {"kind": "all_reduce"}),)))
    assert (lights["in sync"], lights["average"], kinds) == ("right", "does not apply", [])


def times_the_mean(factor: float, mean_loss: bool) -> Callable[[int, int], dict[str, Any]]:
    own = ((1.0, 2.0), (3.0, -5.0))
    left = tuple(factor * (a + b) / 2 for a, b in zip(*own, strict=True))
    return lambda rank, step: {"own": own[rank], "left": left, "mean_loss": mean_loss}


@pytest.mark.parametrize(
    ("factor", "mean_loss", "state", "says"),
    [
        (2.0, True, "wrong", "Gradients are 2 times their mean over the ranks: they are the sum, not divided"),
        (0.5, True, "wrong", "Gradients are 0.5 times their mean over the ranks: the sum is divided twice"),
        (2.0, False, "doubtful", "that is right if the loss is divided by the number of ranks"),
        (0.5, False, "doubtful", "that is right if the loss is multiplied by the number of ranks"),
        (1.0, True, "right", None),
        (0.31, True, "right", None),  # clipped
    ],
)
def test_a_multiple_of_the_mean_is_named(factor: float, mean_loss: bool, state: str, says: str | None) -> None:
    lights, kinds, words = checked(training(times_the_mean(factor, mean_loss), (BY_HAND,)))
    assert (lights["average"], lights["in sync"], len(kinds)) == (state, "right", int(says is not None))
    assert says is None or says in words[0]


TWO_BACKWARDS = ("forward", "backward", "forward", "backward", "optimizer")


def test_a_division_by_the_number_of_backwards_and_two_models_in_a_step_are_right() -> None:
    halves = times_the_mean(0.5, mean_loss=True)
    messages = training(halves, ((3, {"kind": "all_reduce", "bucket": 0}),), parts=TWO_BACKWARDS)
    assert checked(messages)[0]["average"] == "right"
    calls = [(at, {"kind": "all_reduce", "bucket": 0, "size": 100 * at}) for at in (1, 3)]
    assert checked(training(calls=calls, parts=TWO_BACKWARDS))[0]["accumulation"] == "does not apply"


MICRO = ("forward", "backward", "forward", "backward", "forward", "backward", "optimizer")


@pytest.mark.parametrize(
    ("of_rank", "synced", "state", "kind", "says"),
    [
        (apart, (1,), "wrong", Kind.NO_SYNC_LATE, "The last 2 of 3 backward passes of each step are not averaged"),
        (lambda *_: {}, (1, 3, 5), "doubtful", Kind.NO_SYNC_SAVES, "would save 2 of 3 averages (20 ms of 700 ms)"),
        (lambda *_: {}, (5,), "right", None, ""),
    ],
)
def test_no_sync_around_the_wrong_backward_and_what_it_would_save_is_said(
    of_rank: Callable[[int, int], dict[str, Any]], synced: tuple[int, ...], state: str, kind: Kind | None, says: str
) -> None:
    calls = [(at, {"kind": "all_reduce", "bucket": 0}) for at in synced]
    lights, kinds, words = checked(training(of_rank, calls, parts=MICRO))
    assert (lights["accumulation"], kinds) == (state, [kind] * (kind is not None))
    assert kind is None or says in words[0]


def batches(
    rows: Callable[[int, int, int], tuple[int, ...]], passes: int = 1, loader: int = 0, **fields: Any
) -> Messages:
    """rows: by rank, pass and batch."""
    usual = {"samples": 4, "elements": 40, "sampler": "DistributedSampler", "loader": loader}

    def of(rank: int, number: int, batch: int) -> Batch:
        place = {"rank": rank, "step": 4 * number + batch, "passes": number, "batch": batch, "epoch": number - 1}
        return Batch(rows=rows(rank, number, batch), **(usual | place | fields))

    places = ((number, batch) for number in range(1, passes + 1) for batch in range(1, 5))
    return [of(rank, *place) for place in places for rank in range(2)]


def own_rows(rank: int, passes: int, batch: int) -> tuple[int, ...]:
    return tuple(1_000 * passes + 100 * rank + 10 * batch + row for row in range(4))


PARALLEL = training(lambda *at: apart(*at) | {"ddp_groups": ()}, (("forward", {"kind": "all_reduce"}),))


def of_rank_0(rank: int, passes: int, batch: int) -> tuple[int, ...]:
    return own_rows(0, passes, batch)


@pytest.mark.parametrize(
    ("readings", "read", "state", "kind"),
    [
        (training(), batches(own_rows, passes=2), "right", None),
        (training(), batches(of_rank_0), "wrong", Kind.SAME_BATCHES),
        (training(), batches(of_rank_0, loader=-1), "doubtful", Kind.SAME_BATCHES),
        (training(), batches(lambda *_: (1, 2, 3, 4)), "right", None),  # a batch that never changes is made up
        (PARALLEL, batches(of_rank_0), "does not apply", None),  # parallel models need the same batches
        (
            training(),
            batches(lambda rank, passes, batch: own_rows(0, passes, (batch + rank) % 5)),
            "doubtful",
            Kind.OVERLAP_OF_SAMPLES,
        ),
        # those that cannot be told apart do not overlap
        (training(), batches(lambda rank, passes, batch: (0, 0, 0, 10 * batch + rank)), "right", None),
    ],
)
def test_samples_of_their_own_are_told_from_those_that_another_rank_reads_as_well(
    readings: Messages, read: Messages, state: str, kind: Kind | None
) -> None:
    lights, kinds, words = checked([*readings, *read])
    assert (lights["samples"], kinds) == (state, [kind] * (kind is not None))
    says = {
        Kind.SAME_BATCHES: "Ranks 0 and 1 train on the same batches (4 of 4 compared)",
        Kind.OVERLAP_OF_SAMPLES: "75% of those that a rank read were also read by another",
    }
    assert kind is None or says[kind] in words[0]


@pytest.mark.parametrize(
    ("sampler", "epoch", "is_repeated", "state"),
    [
        ("DistributedSampler", 0, False, "wrong"),  # augmented, so rows differ
        ("DistributedSampler", None, True, "right"),  # not shuffled
        ("RandomSampler", None, True, "wrong"),
        ("RandomSampler", None, False, "right"),
        ("SequentialSampler", None, True, "right"),
        ("MySampler", 0, True, "wrong"),
        ("MySampler", 0, False, "right"),
        ("ByLength", None, True, "right"),
    ],
)
def test_one_order_in_each_epoch_is_named(sampler: str, epoch: int | None, is_repeated: bool, state: str) -> None:
    def rows(rank: int, passes: int, batch: int) -> tuple[int, ...]:
        return own_rows(rank, 1 if is_repeated else passes, batch)

    lights, kinds, _ = checked([*training(), *batches(rows, passes=2, sampler=sampler, epoch=epoch)])
    assert (lights["order"], kinds) == (state, [Kind.SAME_ORDER] * (state == "wrong"))


def losses(*of_ranks: Sequence[float | None], has_loss: bool = True) -> Messages:
    steps = [
        a_step(rank, step, IN_BACKWARD, loss=loss, has_loss=has_loss)
        for rank, all in enumerate(of_ranks)
        for step, loss in enumerate(all)
    ]
    return [*(each for each in training() if not isinstance(each, Step)), *steps]


@pytest.mark.parametrize(
    ("of_ranks", "state", "says"),
    [
        (([1, 1, 1, None], [1, 1, None, None]), "wrong", "on rank 1 first, in step 2; on the others from step 3 on"),
        (([1, None, None], [1, None, None]), "wrong", "The loss became NaN or infinite on all ranks, in step 1"),
        (([None] * 3, [None] * 3), "wrong", "The loss was NaN or infinite in every step, from the first one on"),
        (([1, None, 1], [1, 1, 1]), "doubtful", None),
        (([1, 1, 1], [1, 1, 1]), "right", None),
    ],
)
def test_of_a_loss_that_is_not_finite_rank_and_step_are_named(of_ranks: Any, state: str, says: str | None) -> None:
    lights, kinds, words = checked(losses(*of_ranks))
    assert (lights["loss"], len(kinds)) == (state, int(says is not None))
    assert says is None or says in words[0]
    assert checked(losses(*of_ranks, has_loss=False))[0]["loss"] == "unknown"  # it cannot be read


def test_a_rank_in_another_mode_is_named_and_batchnorm_is_not_red() -> None:
    def of_rank(rank: int, step: int) -> dict[str, Any]:
        settings = {"modules in training mode": f"{5 * rank} of 5", "random numbers": f"{rank}"}
        return {"settings": settings, "buffers": {"running_mean": f"{rank}"}}

    lights, kinds, words = checked(training(of_rank))
    assert (lights["settings"], lights["buffers"], kinds) == ("wrong", "doubtful", [Kind.SETTINGS_DIFFER])
    assert words == ["Settings differ between ranks: modules in training mode 0 of 5 on rank 0, 5 of 5 on rank 1"]


def test_a_world_smaller_than_launched_is_named() -> None:
    settings = {"WORLD_SIZE": "4", "process group": "2"}
    assert "world size 2, of 4 launched on rank" in checked(training(lambda *_: {"settings": settings}))[2][0]


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("torchrun --nproc-per-node 4 train.py --num_processes=8", 4),
        ("accelerate launch --num_processes 2 train.py", 2),
        ("torchrun --nproc_per_node=gpu train.py", None),
        ("python train.py", None),
    ],
)
def test_fewer_processes_than_the_command_asks_for_are_named(command: str, asked: int | None) -> None:
    assert processes_of(command.split()) == asked
    lights, kinds, words = checked([reading(0, 0), a_step(0, 0)], ranks=1, asked=asked)
    assert lights["processes"] == ("unknown" if asked is None else "wrong")
    assert kinds == [Kind.FEWER_PROCESSES] * (asked is not None)
    assert asked is None or words == [f"The command asks for {asked} processes, but 1 trained"]


def test_parameters_that_differ_only_after_the_training_are_told_not_red() -> None:
    end = [reading(rank, 9, at_end=True, parameters={"weight": f"{rank}"}) for rank in (0, 1)]
    lights, kinds, words = checked([*training(), *end])
    assert (lights["in sync"], kinds) == ("doubtful", [Kind.APART_AT_END])
    assert "in step 9 they were the same" in words[0]


@pytest.mark.parametrize(("weights", "state"), [("0011", "right"), ("0123", "wrong")])
def test_ranks_of_two_groups_are_compared_within_their_group(weights: str, state: str) -> None:
    messages: Messages = []
    for step in range(3):
        for rank, group in enumerate([((0, 1),), ((0, 1),), ((2, 3),), ((2, 3),)]):
            messages.append(reading(rank, step, parameters={"weight": weights[rank]}, ddp_groups=group))
            messages.append(a_step(rank, step, IN_BACKWARD))
    assert checked(messages, ranks=4)[0]["in sync"] == state


def test_parts_of_a_tensor_count_as_one() -> None:
    parts = filled({"parameters": {f"weight ({part})": "{rank}" for part in (1, 2)}})
    [compared] = log_of(training(parts, steps=1)).compared
    assert (compared.parameters, compared.of_parameters) == (("weight",), 1)


def test_a_restart_forgets_readings_that_were_not_complete() -> None:
    log = log_of([reading(0, 3), hello(0), hello(1), reading(1, 3)])
    assert log.compared == []
    log.add(reading(0, 3))
    assert len(log.compared) == 1


@pytest.mark.parametrize("elements", [40, 100])
def test_lateness_by_turns_is_put_down_to_batches_that_differ(elements: int) -> None:
    sizes = [msgspec.structs.replace(each, elements=elements) if each.rank else each for each in batches(own_rows)]
    uneven = Finding(kind=Kind.UNEVEN_WORK, numbers={"share": 0.18, "saved_s": 1.0})
    found = Checked(log_of([*training(), *sizes]), [uneven])
    lights = {light.name: light.state for light in found.lights}
    assert lights["batch sizes"] == ("doubtful" if elements > 40 else "right")
    words = "from uneven batches: one has up to 2.5 times the numbers"
    assert (words in short(found.of_time[0])) == (elements > 40)


def test_dropout_that_draws_the_same_numbers_everywhere_is_amber() -> None:
    def state(alike: bool) -> str:
        readings = training(lambda rank, step: {"settings": {"random numbers": f"{step}-{rank * (not alike)}"}})
        return checked(readings)[0]["dropout"]

    assert (state(True), state(False)) == ("doubtful", "right")
    assert "dropout" not in checked(training())[0]
