"""What `ddptui watch` must show of trainings on one GPU, and leave alone there; as test_one_gpu.py."""

from collections.abc import Iterator

import pytest

from ddptui.text.words import MS, count, digits, listed, percent, seconds, size
from ddptui.wire.messages import Step
from tests.gpu import judging
from tests.gpu.judging import Expect, Observed
from tests.gpu.watching import Watch, Watched

PARTS_TOLERANCE = 0.01  # relative
MOST_SLOWER, MOST_SLOWER_NARROW = 1.02, 1.5  # × a step that is not watched
SLEEP_TOLERANCE, DELAY_TOLERANCE = 0.05, 0.2  # relative
MOST_GROWN = 2**20  # bytes
NOTHING_WAITS_MS = 0.05  # what a step may seem to wait where there is one rank
BACKENDS = ["nccl", "", "cuda:nccl,cpu:gloo"]


def on_gpus(watched: Watched) -> Observed:
    """Whether all ranks were seen on a GPU."""
    devices = sorted({rank.device for rank in watched.repeat.ranks})
    return Observed(all(device.startswith("cuda") for device in devices), f"on {listed(devices)}")


def all_told(watched: Watched, ranks: int, steps: int, lost: int = 0) -> Observed:
    """Whether each rank has reported each of its steps once, but for so many."""
    told = [[step.step for step in watched.steps if step.rank == rank] for rank in range(ranks)]
    right = all(steps - lost <= len(set(each)) == len(each) <= steps for each in told)
    return Observed(right, f"{listed([str(len(each)) for each in told])} of {count(steps, 'step')} reported")


def parts_add_up(steps: list[Step]) -> Observed:
    """Whether the parts of a step take as long as the step, in the worst of them."""
    lengths = [(sum(ns for _, ns in step.pieces) or sum(step.phases_ns), step.end_ns - step.begin_ns) for step in steps]
    worst = max(abs(parts_ns - ns) / ns for parts_ns, ns in lengths)
    return Observed(worst <= PARTS_TOLERANCE, f"parts of a step off by {percent(worst)} of it at most")


def test_watched_pace(watch: Watch, expect: Expect) -> None:
    """A step of a wide model, which keeps the GPU busy, and of a narrow one, which waits for its host: watched and not.
    Expected: parts of a step sum to it within 1%; it takes 1.02 × as long at most if watched, of the narrow one 1.5 ×.
    """
    plain, watched = watch("paced", watched=False), watch("paced")
    took = {name: (plain.found[0][f"{name}_ms"], watched.found[0][f"{name}_ms"]) for name in ("wide", "narrow")}
    most = {"wide": MOST_SLOWER, "narrow": MOST_SLOWER_NARROW}
    expect(
        on_gpus(watched),
        all_told(watched, 1, watched.found[0]["steps"]),
        parts_add_up(watched.steps),
        *(
            Observed(seen <= most[name] * bare, f"{name}: {digits(bare)} ms, watched {digits(seen)} ms")
            for name, (bare, seen) in took.items()
        ),
    )


def test_watched_sleep(watch: Watch, expect: Expect) -> None:
    """The GPU sleeps in forward; then the loss is read at each step, too. Expected: forward grows by the sleep, within
    5%, in both."""
    watched = watch("late")
    part, warmup, slept_ms = (watched.found[0][name] for name in ("part", "warmup", "slept_ms"))
    begins = [warmup + at * part for at in range(4)]
    forward_ms = [watched.phase_ms("forward", begin + 2, begin + part) for begin in begins]
    grown_ms = {"its loss unread": forward_ms[1] - forward_ms[0], "read": forward_ms[3] - forward_ms[2]}
    expect(
        on_gpus(watched),
        all_told(watched, 1, warmup + 4 * part),
        *(
            Observed(abs(ms - slept_ms) <= SLEEP_TOLERANCE * slept_ms, f"{name}: {digits(ms)} of {digits(slept_ms)} ms")
            for name, ms in grown_ms.items()
        ),
    )


def test_watched_pair(watch: Watch, expect: Expect) -> None:
    """Two ranks share the GPU, with torch DDP over gloo. Expected: no rank is named; a message for each step; times of
    the GPU known to ±60 µs after a second; the checks find the ranks in sync."""
    watched = watch("grouped", "group=gloo", ranks=2)
    culprit = watched.repeat.culprit
    lights = {light.name: light.state for light in watched.repeat.checks}
    in_sync = lights.get("in sync") == lights.get("average") == "right"
    expect(
        on_gpus(watched),
        all_told(watched, 2, watched.found[0]["steps"]),
        Observed(culprit is None, f"rank {culprit.rank} named in {culprit.phase}" if culprit else "no rank named"),
        judging.clocks_tied(watched.recorded),
        Observed(in_sync, f"in sync: {lights.get('in sync')}, average: {lights.get('average')}"),
    )


def test_watched_late_rank(watch: Watch, expect: Expect) -> None:
    """The same, and the GPU sleeps in rank 1's forward. Expected: rank 1 is named in forward, its delay within 20%."""
    watched = watch("grouped", "group=gloo", "slow=1", ranks=2)
    expect(on_gpus(watched), *late_found(watched))


def late_found(watched: Watched) -> Iterator[Observed]:
    """Whether rank 1 is named in forward, late by what it slept."""
    slept_s = watched.found[1]["slept_ms"] / 1000 * watched.repeat.steps
    if (culprit := watched.repeat.culprit) is None:
        yield Observed(False, f"no rank named, {seconds(slept_s)} slept")
        return
    found_s = culprit.excess_s.estimate
    right = (culprit.rank, culprit.phase) == (1, "forward") and abs(found_s - slept_s) <= DELAY_TOLERANCE * slept_s
    yield Observed(right, f"rank {culprit.rank} in {culprit.phase}, {seconds(found_s)} of {seconds(slept_s)} slept")


@pytest.mark.parametrize("backend", BACKENDS, ids=["nccl", "default", "both"])
def test_watched_buckets(watch: Watch, expect: Expect, backend: str) -> None:
    """torch DDP in a group of one: over NCCL, named as such, by default, or beside gloo. Expected: buckets in each
    step, no waits, transfers that take some time."""
    watched = watch("grouped", f"group={backend}", "wide=2048", "steps=40")
    repeat = watched.repeat
    calls = [call for step in watched.steps for call in step.collectives]
    buckets = {call.bucket for call in calls if call.bucket is not None}
    without = sum(all(call.bucket is None for call in step.collectives) for step in watched.steps)
    took_ns = sum(call.exit_ns - call.enter_ns for call in calls)
    expect(
        on_gpus(watched),
        all_told(watched, 1, watched.found[0]["steps"]),
        Observed(repeat.nccl is not None, f"NCCL {repeat.nccl and repeat.nccl.version}, told {repeat.backend}"),
        Observed(bool(buckets) and without <= 1, f"{count(len(buckets), 'bucket')}, {count(without, 'step')} without"),
        Observed((repeat.wait_ms or 0.0) <= NOTHING_WAITS_MS, f"waits {digits(repeat.wait_ms)} ms a step"),
        Observed(took_ns > 0, f"transfers {digits(took_ns / MS / max(1, len(watched.steps)))} ms a step"),
    )


def test_watched_unharmed(watch: Watch, expect: Expect) -> None:
    """A DDP over NCCL copied and pickled after some steps, and sends and receives as a group, watched and not.
    Expected: what came of it is the same, and so is the loss."""
    plain, watched = watch("handled", watched=False).found[0], watch("handled").found[0]
    expect(*(Observed(plain[name] == watched[name], f"{name}: {plain[name]}, {watched[name]}") for name in plain))


def test_watched_captures(watch: Watch, expect: Expect) -> None:
    """20 captures of CUDA graphs, of a step each, of 300 ms and more; then torch's own check for calls that wait.
    Expected: no capture fails, nothing waits, all steps but the one after the captures are reported."""
    watched = watch("captured")
    found = watched.found[0]
    expect(
        on_gpus(watched),
        judging.none_of(found["errors"], f"{count(found['captures'], 'capture')} unharmed"),
        judging.none_of(list(filter(None, [found["waits"]])), "nothing waited"),
        all_told(watched, 1, found["steps"], lost=1),
    )


def test_watched_compiled(watch: Watch, expect: Expect) -> None:
    """torch.compile(mode="reduce-overhead") of forward and loss. Expected: all steps reported, with their losses."""
    watched = watch("compiled")
    losses = [step.loss for step in watched.steps if step.loss is not None]
    expect(
        on_gpus(watched),
        all_told(watched, 1, watched.found[0]["steps"]),
        Observed(len(losses) == len(watched.steps), f"{len(losses)} of them with a loss"),
    )


def test_watched_spread(watch: Watch, expect: Expect) -> None:
    """Two ranks on cuda:0 without set_device, with 4 loader workers each, and reentrant checkpoints. Expected: a
    context on the GPU for each rank and for no other process; a message for each step."""
    watched = watch("spread", "group=gloo", "unset=1", ranks=2)
    ranks = {found["pid"] for found in watched.found.values()}
    seen = {pid for found in watched.found.values() for pid in found["on_the_gpu"]}
    expect(
        on_gpus(watched),
        all_told(watched, 2, watched.found[0]["steps"]),
        Observed(seen == ranks, f"contexts: {len(seen & ranks)} of ranks, {len(seen - ranks)} of others"),
    )


def test_watched_overwritten(watch: Watch, expect: Expect) -> None:
    """256 MB gathered in the background by NCCL, the input being given back at once, and its memory overwritten.
    Expected: right each time."""
    watched = watch("overwritten")
    found = watched.found[0]
    expect(on_gpus(watched), Observed(not found["wrong"], f"{found['wrong']} of {found['tries']} wrong"))


def test_watched_sharded(watch: Watch, expect: Expect) -> None:
    """FSDP2 in a group of one over NCCL. Expected: a message for each step; the tensors take as much memory after half
    of the steps as at the end."""
    watched = watch("sharded")
    found = watched.found[0]
    half, end = found["bytes"]
    kinds = {call.kind for step in watched.steps for call in step.collectives}
    exposed_s = watched.repeat.ranks[0].exposed_s
    expect(
        on_gpus(watched),
        all_told(watched, 1, found["steps"]),
        Observed(end - half <= MOST_GROWN, f"{size(half)}, then {size(end)}"),
        Observed(True, f"{listed(sorted(kinds)) or 'no collectives'}, exposed {seconds(exposed_s)}"),
    )
