"""The checks of a watched training, on made-up readings: each has a case that turns it red, and one that must not."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from ddptui.analysis.check_log import CheckLog, processes_of
from ddptui.analysis.finding import Finding, Kind
from ddptui.findings.checks import Checked
from ddptui.findings.words import long, short
from ddptui.wire.messages import Batch, Collective, Fingerprint, Hello, Step
from ddptui.wire.phases import PARTS

MS = 1_000_000
AT = {part: number for number, part in enumerate(PARTS)}
USUAL = ("data", "forward", "backward", "aggregate", "optimizer")
Messages = list[Any]


def hello(rank: int, ranks: int = 2) -> Hello:
    return Hello(
        version=1, token="t", rank=rank, world_size=ranks, at_ns=0, host="h", pid=1, device="cpu", threads=1, torch="2"
    )


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
    begin = number * 1_000 * MS
    places = [(parts.index(part) if isinstance(part, str) else part, options) for part, options in calls]
    collectives = [call(at_ns=begin + place * 10 * MS + MS, **options) for place, options in places]
    fields = {"loss": 1.0, "samples": 4} | fields
    return Step(
        rank=rank, step=number, epoch=0, warmup=False, begin_ns=begin, end_ns=begin + len(parts) * 10 * MS,
        phases_ns=(10 * MS,) * 5, collectives=tuple(collectives),
        pieces=tuple((AT[part], 10 * MS) for part in parts), **fields,
    )  # fmt: skip


IN_BACKWARD = ("backward", {"kind": "all_reduce", "bucket": 0})
BY_HAND = ("aggregate", {"kind": "all_reduce"})


def checked(
    messages: Messages, ranks: int = 2, asked: int | None = None
) -> tuple[dict[str, str], list[Kind], list[str]]:
    """The lights, the findings, and their words."""
    log = CheckLog(asked=asked)
    for message in [*(hello(rank, ranks) for rank in range(ranks)), *messages]:
        log.add(message)
    found = Checked(log)
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
    own = f"{rank}-{step}"
    return {"parameters": {"weight": own * (step > 0), "bias": "b"}, "gradients": {"weight": own, "bias": own}}


def test_a_training_in_step_has_no_red_light() -> None:
    lights, kinds, _ = checked(training())
    assert kinds == []
    assert lights == {
        "processes": "unknown", "loss": "right", "settings": "right", "in sync": "right", "average": "right",
        "buffers": "right", "samples": "unknown", "batch sizes": "unknown", "accumulation": "does not apply",
        "order": "unknown",
    }  # fmt: skip


def test_before_a_step_is_measured_nothing_is_said_of_agreement() -> None:
    warmup = [
        msgspec.structs.replace(each, warmup=True) if isinstance(each, Step) else each for each in training(apart, ())
    ]
    lights, kinds, _ = checked(warmup)
    assert (lights["in sync"], lights["average"], kinds) == ("unknown", "unknown", [])


def test_without_readings_there_are_no_lights() -> None:
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


def own_start(rank: int, step: int) -> dict[str, Any]:
    return {"parameters": {"weight": f"{rank}", "bias": "b"}}


def moves_later(rank: int, step: int) -> dict[str, Any]:
    return {"parameters": {"weight": f"{rank * (step >= 4)}", "bias": "b"}}


def one_tensor(rank: int, step: int) -> dict[str, Any]:
    return {"parameters": {"weight": "a", "bias": f"{rank * step}"}, "gradients": {"weight": "g", "bias": f"{rank}"}}


def other_rate(rank: int, step: int) -> dict[str, Any]:
    return moves_later(rank, step) | {"settings": {"learning rate": f"{0.1 + rank}", "weight decay": "0"}}


@pytest.mark.parametrize(
    ("of_rank", "kind", "says", "average"),
    [
        (own_start, Kind.STARTED_APART, "The ranks began with different parameters", "right"),
        (moves_later, Kind.MOVED_APART, "The ranks' parameters differ since step 4", "right"),
        (one_tensor, Kind.SOME_AVERAGED, "Some gradients are not averaged: bias", "wrong"),
        (apart, Kind.AVERAGE_DIFFERS, "Gradients differ between ranks although each step calls", "wrong"),
        (other_rate, Kind.SETTINGS_DIFFER, "learning rate 0.1 on rank 0, 1.1 on rank 1", "right"),
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
    def of_rank(rank: int, step: int) -> dict[str, Any]:
        return moves_later(rank, step) | {"gradients": {}}

    assert checked(training(of_rank))[2] == ["The ranks' parameters differ since step 4: weight"]
    assert checked(training(of_rank, ()))[1] == [Kind.NOT_AVERAGED]
    sends = training(of_rank, (("forward", {"kind": "send"}),))
    assert checked(sends)[0]["in sync"] == "does not apply"


def test_gradients_that_are_averaged_in_some_steps_only_are_named() -> None:
    messages = [each for each in training(apart, ()) if not isinstance(each, Step)]
    messages += [a_step(0, step, *[IN_BACKWARD] * (step % 4 == 0)) for step in range(12)]
    assert checked(messages)[2] == [
        "Gradients are averaged in 3 of 12 steps only; the ranks' parameters differ since step 1"
    ]


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        ({"ddp_groups": ()}, (("forward", {"kind": "all_reduce"}), IN_BACKWARD)),  # tensor parallel
        ({"ddp_groups": ()}, (("forward", {"kind": "send"}),)),  # a pipeline
        ({}, (("forward", {"kind": "all_to_all"}),)),  # experts
        ({}, (("backward", {"kind": "reduce_scatter"}),)),  # shards
        ({"ddp_hooks": ("post_localSGD_hook",)}, (IN_BACKWARD,)),
    ],
)
def test_ranks_that_are_meant_to_differ_have_no_red_light(fields: dict[str, Any], calls: Any) -> None:
    lights, kinds, _ = checked(training(lambda rank, step: apart(rank, step) | fields, calls))
    assert (lights["in sync"], lights["average"], kinds) == ("does not apply", "does not apply", [])


def test_sharded_parameters_are_not_compared() -> None:
    nothing: dict[str, Any] = {"parameters": {}, "gradients": {}, "sharded": 6}
    lights, kinds, _ = checked(training(lambda rank, step: nothing))
    assert (lights["in sync"], lights["average"], kinds) == ("does not apply", "does not apply", [])


def test_parameters_that_agree_again_are_averaged_now_and_then() -> None:
    def of_rank(rank: int, step: int) -> dict[str, Any]:
        return apart(rank, step) | ({"parameters": {"weight": "same", "bias": "b"}} if step % 4 == 0 else {})

    lights, kinds, _ = checked(training(of_rank, ()))
    assert (lights["in sync"], kinds) == ("does not apply", [])


def test_parameters_averaged_after_each_step_are_in_sync() -> None:
    own = {"gradients": {"weight": "", "bias": ""}}
    messages = training(
        lambda rank, step: {"gradients": dict.fromkeys(own["gradients"], f"{rank}")},
        (("optimizer", {"kind": "all_reduce"}),),
    )
    lights, kinds, _ = checked(messages)
    assert (lights["in sync"], lights["average"], kinds) == ("right", "does not apply", [])


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
    def of_rank(rank: int, step: int) -> dict[str, Any]:
        own = ((1.0, 2.0), (3.0, -5.0))
        left = tuple(factor * (a + b) / 2 for a, b in zip(*own, strict=True))
        return {"own": own[rank], "left": left, "mean_loss": mean_loss}

    lights, kinds, words = checked(training(of_rank, (BY_HAND,)))
    assert (lights["average"], lights["in sync"]) == (state, "right")
    assert len(kinds) == (says is not None)
    assert says is None or says in words[0]


def test_a_division_by_the_number_of_backwards_is_no_division_by_the_ranks() -> None:
    parts = ("forward", "backward", "forward", "backward", "optimizer")
    fields = {"own": (2.0, 4.0), "left": (1.0, 2.0), "mean_loss": True}
    messages = training(lambda rank, step: fields, ((3, {"kind": "all_reduce", "bucket": 0}),), parts=parts)
    assert checked(messages)[0]["average"] == "right"


MICRO = ("forward", "backward", "forward", "backward", "forward", "backward", "optimizer")


def test_no_sync_around_the_wrong_backward_is_named() -> None:
    messages = training(apart, ((1, {"kind": "all_reduce", "bucket": 0}),), parts=MICRO)
    lights, kinds, words = checked(messages)
    assert kinds == [Kind.NO_SYNC_LATE]
    assert "The last 2 of 3 backward passes of each step are not averaged" in words[0]
    assert lights["accumulation"] == "wrong"


@pytest.mark.parametrize(("synced", "kinds"), [((1, 3, 5), [Kind.NO_SYNC_SAVES]), ((5,), [])])
def test_what_no_sync_would_save_is_said(synced: tuple[int, ...], kinds: list[Kind]) -> None:
    calls = [(at, {"kind": "all_reduce", "bucket": 0}) for at in synced]
    lights, found, words = checked(training(calls=calls, parts=MICRO))
    assert found == kinds
    assert lights["accumulation"] == ("doubtful" if kinds else "right")
    assert not words or "`no_sync` would save 2 of 3 averages (20 ms of 700 ms)" in words[0]


def test_two_models_in_a_step_are_no_accumulation() -> None:
    calls = [(at, {"kind": "all_reduce", "bucket": 0, "size": 100 * at}) for at in (1, 3)]
    parts = ("forward", "backward", "forward", "backward", "optimizer")
    assert checked(training(calls=calls, parts=parts))[0]["accumulation"] == "does not apply"


def batches(
    rows: Callable[[int, int, int], tuple[int, ...]], passes: int = 1, loader: int = 0, ranks: int = 2, **fields: Any
) -> Messages:
    """rows: by rank, pass and batch."""
    usual = {"samples": 4, "elements": 40, "sampler": "DistributedSampler"}
    return [
        Batch(
            rank=rank,
            step=4 * number + batch,
            loader=loader,
            passes=number,
            batch=batch,
            rows=rows(rank, number, batch),
            **(usual | {"epoch": number - 1} | fields),
        )
        for number in range(1, passes + 1)
        for batch in range(1, 5)
        for rank in range(ranks)
    ]


def own_rows(rank: int, passes: int, batch: int) -> tuple[int, ...]:
    return tuple(1_000 * passes + 100 * rank + 10 * batch + row for row in range(4))


def test_ranks_with_samples_of_their_own_are_right() -> None:
    lights, kinds, _ = checked([*training(), *batches(own_rows, passes=2)])
    assert (lights["samples"], lights["order"], lights["batch sizes"], kinds) == ("right", "right", "right", [])


@pytest.mark.parametrize(("loader", "state"), [(0, "wrong"), (-1, "doubtful")])
def test_ranks_with_the_same_batches_are_named(loader: int, state: str) -> None:
    same = batches(lambda rank, passes, batch: own_rows(0, passes, batch), loader=loader)
    lights, kinds, words = checked([*training(), *same])
    assert (lights["samples"], kinds) == (state, [Kind.SAME_BATCHES])
    assert words == ["Ranks 0 and 1 train on the same batches (4 of 4 compared)"]


def test_a_batch_that_never_changes_is_made_up() -> None:
    lights, kinds, _ = checked([*training(), *batches(lambda *_: (1, 2, 3, 4))])
    assert (lights["samples"], kinds) == ("right", [])


def test_parallel_models_need_the_same_batches() -> None:
    readings = training(
        lambda rank, step: apart(rank, step) | {"ddp_groups": ()}, (("forward", {"kind": "all_reduce"}),)
    )
    lights, kinds, _ = checked([*readings, *batches(lambda rank, *place: own_rows(0, *place))])
    assert (lights["samples"], kinds) == ("does not apply", [])


def test_samples_that_another_rank_reads_as_well_are_told() -> None:
    messages = [*training(), *batches(lambda rank, passes, batch: own_rows(0, passes, (batch + rank) % 5))]
    lights, kinds, words = checked(messages)
    assert (lights["samples"], kinds) == ("doubtful", [Kind.OVERLAP_OF_SAMPLES])
    assert "75% of those that a rank read were also read by another" in words[0]


def test_samples_that_cannot_be_told_apart_do_not_overlap() -> None:
    messages = [*training(), *batches(lambda rank, passes, batch: (0, 0, 0, 10 * batch + rank))]
    assert checked(messages)[0]["samples"] == "right"


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


def test_a_loss_that_cannot_be_read_is_not_judged() -> None:
    assert checked(losses([None] * 3, [None] * 3, has_loss=False))[0]["loss"] == "unknown"


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
        ("torchrun --nproc_per_node=2 train.py", 2),
        ("torchrun --nproc-per-node 4 train.py --num_processes=8", 4),
        ("accelerate launch --num_processes 2 train.py", 2),
        ("torchrun --nproc_per_node=gpu train.py", None),
        ("python train.py", None),
    ],
)
def test_fewer_processes_than_the_command_asks_for_are_named(command: str, asked: int | None) -> None:
    assert processes_of(command.split()) == asked
    alone = [reading(0, 0), a_step(0, 0)]
    lights, kinds, words = checked(alone, ranks=1, asked=asked)
    assert lights["processes"] == ("unknown" if asked is None else "wrong")
    assert kinds == [Kind.FEWER_PROCESSES] * (asked is not None)
    assert asked is None or words == [f"The command asks for {asked} processes, but 1 trained"]


def test_parameters_that_differ_only_after_the_training_are_told_not_red() -> None:
    end = [reading(rank, 9, at_end=True, parameters={"weight": f"{rank}"}) for rank in (0, 1)]
    lights, kinds, words = checked([*training(), *end])
    assert (lights["in sync"], kinds) == ("doubtful", [Kind.APART_AT_END])
    assert "in step 9 they were the same" in words[0]


def test_ranks_of_two_groups_are_compared_within_their_group() -> None:
    def messages(of_rank: Callable[[int], str]) -> Messages:
        groups = {rank: ((0, 1),) if rank < 2 else ((2, 3),) for rank in range(4)}
        return [
            each
            for step in range(3)
            for rank in range(4)
            for each in (
                reading(rank, step, parameters={"weight": of_rank(rank)}, ddp_groups=groups[rank]),
                a_step(rank, step, IN_BACKWARD),
            )
        ]

    assert checked(messages(lambda rank: f"{rank // 2}"), ranks=4)[0]["in sync"] == "right"
    assert checked(messages(lambda rank: f"{rank}"), ranks=4)[0]["in sync"] == "wrong"


def test_parts_of_a_tensor_count_as_one() -> None:
    def of_rank(rank: int, step: int) -> dict[str, Any]:
        return {"parameters": {f"weight ({part})": f"{rank}" for part in (1, 2)}}

    log = CheckLog()
    for message in [hello(0), hello(1), *training(of_rank, steps=1)]:
        log.add(message)
    assert (log.compared[0].parameters, log.compared[0].of_parameters) == (("weight",), 1)


def test_a_restart_forgets_readings_that_were_not_complete() -> None:
    log = CheckLog()
    for message in [hello(0), hello(1), reading(0, 3), hello(0), hello(1), reading(1, 3)]:
        log.add(message)
    assert log.compared == []
    log.add(reading(0, 3))
    assert len(log.compared) == 1


def test_messages_of_checks_survive_the_wire() -> None:
    for message in [*training(steps=1), *batches(own_rows)]:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)) == message


@pytest.mark.parametrize("elements", [40, 100])
def test_lateness_by_turns_is_put_down_to_batches_that_differ(elements: int) -> None:
    sizes = [
        msgspec.structs.replace(each, elements=elements) if each.rank else each
        for each in batches(own_rows)
        if isinstance(each, Batch)
    ]
    log = CheckLog()
    for message in [hello(0), hello(1), *training(), *sizes]:
        log.add(message)
    uneven = Finding(kind=Kind.UNEVEN_WORK, numbers={"share": 0.18, "saved_s": 1.0})
    found = Checked(log, [uneven])
    is_uneven = elements > 40
    lights = {light.name: light.state for light in found.lights}
    assert lights["batch sizes"] == ("doubtful" if is_uneven else "right")
    assert ("from uneven batches: one has up to 2.5 times the numbers" in short(found.of_time[0])) is is_uneven


def test_dropout_that_draws_the_same_numbers_everywhere_is_amber() -> None:
    def state(alike: bool) -> str:
        readings = training(lambda rank, step: {"settings": {"random numbers": f"{step}-{rank * (not alike)}"}})
        return checked(readings)[0]["dropout"]

    assert (state(True), state(False)) == ("doubtful", "right")
    assert "dropout" not in checked(training())[0]
