"""Forward in a shorter type, the scale that float16 needs, and clipping, in the loop of real ranks."""

from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.strategies import EXACT, STRATEGIES
from ddptui.config.trial import Trial
from tests.numerics.learning import Said, learn
from tests.numerics.ranks import Learned, leave_behind, run
from workers import train as loop
from workers.aggregate import strategy_of
from workers.training.optimizer import TYPES, make_scaler

RANKS = 3
STEPS = 6
OVERFLOWS_AT = 2
CLIP = 0.1
UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11}  # the roundoff: half of the distance from 1 to the next number
TRIAL = Trial(
    model="tests.numerics.convolutions:make", dataset="random", shape=(3, 6, 5), samples=66, classes=4, batch_size=11,
    steps=STEPS, lr=0.1, momentum=0.9, world_size=RANKS, warmup_steps=0, hash_every=1,
)  # fmt: skip
AVERAGING = [name for name in STRATEGIES if name not in ("none", "ddp_powersgd")]


def cases() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in AVERAGING:
        found |= {f"{name}-{amp}": {"strategy": name, "amp": amp, "channels_last": True} for amp in TYPES}
    found["none-fp16"] = {"strategy": "none", "amp": "fp16"}
    found["parameters-fp16"] = {"strategy": "flat", "average": "parameters", "amp": "fp16"}
    found["every-fp16"] = {"strategy": "bucketed", "every": 2, "amp": "fp16"}
    found["adam-fp16"] = {"strategy": "all_reduce", "optimizer": "adam", "amp": "fp16"}
    found["clip"] = {"strategy": "all_reduce", "clip_norm": CLIP}
    found["clip-fp16"] = {"strategy": "all_reduce", "clip_norm": CLIP, "amp": "fp16"}
    found["clip-too-early"] = found["clip-fp16"]
    return found


CASES = cases()


class Scales:
    """Keeps what the scale is after each update, and lets the step after `OVERFLOWS_AT` overflow on rank 1 alone."""

    def __init__(self, rank: int, *, overflows: bool) -> None:
        self.seen: list[float] = []
        self._step = 0
        self._overflows = overflows and rank == 1
        self._on_device = loop.on_device

    def on_device(self, trial: Trial, batch: tuple[Tensor, Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
        inputs, labels = self._on_device(trial, batch, device)
        self._step += 1
        return (inputs * 1e30 if self._overflows and self._step == OVERFLOWS_AT + 1 else inputs), labels

    def scaler(self, trial: Trial, device: torch.device) -> torch.amp.GradScaler:
        enabled = make_scaler(trial, device).is_enabled()
        scaler = torch.amp.GradScaler(device.type, init_scale=2.0**10, enabled=enabled)  # nothing overflows by itself
        update = scaler.update

        def updated() -> None:
            update()
            self.seen.append(scaler.get_scale())

        setattr(scaler, "update", updated)  # noqa: B010
        return scaler


def run_case(name: str, rank: int, *, overflows: bool) -> tuple[dict[str, Tensor], Said, list[float]]:
    trial = msgspec.structs.replace(TRIAL, **CASES[name])
    scales = Scales(rank, overflows=overflows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "on_device", scales.on_device)
        patch.setattr(loop, "make_scaler", scales.scaler)
        if name == "clip-too-early":
            patch.setattr(torch.amp.GradScaler, "unscale_", lambda *_: None)  # then the optimizer does it, at the end
        tensors, said = learn(rank, trial, strategy_of(trial))
    return tensors, said, scales.seen


class Found(msgspec.Struct):
    said: dict[str, Said]
    scales: dict[str, list[float]]


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    learned, found = {}, Found({}, {})
    for name in CASES:
        overflows = name.endswith("fp16") and not name.startswith("clip")
        learned[name], found.said[name], found.scales[name] = run_case(name, rank, overflows=overflows)
    leave_behind(folder, rank, learned, found)


class World(msgspec.Struct):
    learned: list[Learned]
    found: list[Found]

    def hashes(self, name: str) -> list[list[dict[str, str]]]:
        """Step by step, of each rank."""
        said = [found.said[name].fingerprints for found in self.found]
        return [[mark.parameters for mark in step] for step in zip(*said, strict=True)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    return World(*run(run_rank, (str(folder),), RANKS, folder, Found))


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    return max((a[name] - b[name]).abs().max().item() for name in a)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("none")])
def test_all_ranks_end_with_the_same_bits(world: World, name: str) -> None:
    assert all(apart(rank[name], world.learned[0][name]) == 0 for rank in world.learned)
    assert all(tensor.isfinite().all() for tensor in world.learned[0][name].values())


@pytest.mark.parametrize("name", [f"{name}-fp16" for name in AVERAGING] + ["adam-fp16"])
def test_an_overflow_on_one_rank_skips_the_step_on_all_and_halves_their_scale(world: World, name: str) -> None:
    scales = [2.0**10] * OVERFLOWS_AT + [2.0**9] * (STEPS - OVERFLOWS_AT)
    assert all(found.scales[name] == scales for found in world.found)
    steps = world.hashes(name)
    assert all(rank == steps[0][0] for rank in steps[0])
    assert steps[OVERFLOWS_AT] == steps[OVERFLOWS_AT - 1]
    assert steps[OVERFLOWS_AT + 1] != steps[OVERFLOWS_AT] != steps[0]


def test_gradients_that_add_up_are_scaled_and_looked_through_once_a_round(world: World) -> None:
    """Steps 2 and 3 are a round, which is skipped."""
    assert all(found.scales["every-fp16"] == [2.0**10, 2.0**9, 2.0**9] for found in world.found)
    steps = world.hashes("every-fp16")
    assert steps[1] == steps[2] == steps[3] != steps[5]


@pytest.mark.parametrize("name", ["none-fp16", "parameters-fp16"])
def test_where_each_rank_steps_by_itself_it_skips_by_itself(world: World, name: str) -> None:
    last = [found.scales[name][-1] for found in world.found]
    assert last == [2.0**10, 2.0**9, 2.0**10]


def test_the_scale_is_taken_off_before_clipping(world: World) -> None:
    """Three times its roundoff a step is what float16 may do; what is clipped a thousand times too short is far off."""
    true, late, early = (world.learned[0][name] for name in ("clip", "clip-fp16", "clip-too-early"))
    limit = 3 * STEPS * UNIT["fp16"] * CLIP
    assert 0 < apart(late, true) < limit
    assert apart(early, true) > 3 * limit


@pytest.mark.parametrize(
    "name", [f"{name}-{amp}" for name in AVERAGING for amp in TYPES if not STRATEGIES[name].rounding]
)
def test_the_audit_still_finds_the_mean(world: World, name: str) -> None:
    for found in world.found:
        audit = found.said[name].audit
        assert audit is not None
        assert audit.error is not None
        assert audit.error < EXACT["float32"]
