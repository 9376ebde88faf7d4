"""What is not the big batch, and how far it is from it: averaging less often, averaging parameters under Adam, lossy
gradients, and what BatchNorm's buffers become; forward in a shorter type, the scale of float16, and clipping."""

from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from ddptui.analysis.correctness import error_bound
from ddptui.config.catalog import EXACT, STRATEGIES
from ddptui.config.trial import Trial
from tests.numerics.ranks import Learned, Said, apart, learn, leave_behind, run
from workers import train as loop
from workers.aggregate import strategy_of
from workers.aggregate.ddp_powersgd import WHOLE_STEPS, DDPPowerSGD
from workers.training.models import make_model
from workers.training.optimizer import TYPES, autocast, make_scaler

RANKS = 3
STEPS = 16
TRIAL = Trial(
    model="mlp", width=12, depth=2, dataset="random", shape=(5,), samples=96, classes=4, batch_size=12, steps=STEPS,
    dtype="float64", momentum=0.9, lr=0.1, world_size=RANKS, warmup_steps=0,
)  # fmt: skip
ADAM = {"optimizer": "adam", "lr": 0.01}
BATCH_NORM = {"batch_norm": True, "hash_every": 1}
CASES: dict[str, dict[str, Any]] = {
    "gradients": {},
    "gradients-adam": ADAM,
    "parameters-adam": {"average": "parameters", **ADAM},
    "parameters-every-1": {"average": "parameters", "hash_every": 1},
    "parameters-every-2": {"average": "parameters", "every": 2, "hash_every": 1},
    "parameters-every-5": {"average": "parameters", "every": 5, "hash_every": 1},
    "gradients-every-5": {"every": 5, "hash_every": 1},
    "none": {"strategy": "none", "hash_every": 1},
    "ddp_fp16": {"strategy": "ddp_fp16"},
    "ddp_bf16": {"strategy": "ddp_bf16"},
    "ddp_powersgd": {"strategy": "ddp_powersgd"},
    "ddp_powersgd-large": {"strategy": "ddp_powersgd", "width": 600},  # 3 MB: in buckets of its own, DDP would take two
    "norm-all_reduce": {"strategy": "all_reduce", **BATCH_NORM},
    "norm-all_reduce-every": {"strategy": "all_reduce", "every": 2, **BATCH_NORM},
    "norm-ddp": {"strategy": "ddp", **BATCH_NORM},
    "norm-ddp-every": {"strategy": "ddp", "every": 2, **BATCH_NORM},
    "norm-none": {"strategy": "none", **BATCH_NORM},
}


SHORT_STEPS = 6
OVERFLOWS_AT = 2
CLIP = 0.1
SHORT = Trial(
    model="tests.numerics.convolutions:make", dataset="random", shape=(3, 6, 5), samples=66, classes=4, batch_size=11,
    steps=SHORT_STEPS, lr=0.1, momentum=0.9, world_size=RANKS, warmup_steps=0, hash_every=1,
)  # fmt: skip
AVERAGING = [name for name in STRATEGIES if name not in ("none", "ddp_powersgd")]


def in_short_types() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in AVERAGING:
        types = TYPES if name in ("all_reduce", "bucketed", "ddp") else ("fp16",)
        found |= {f"{name}-{amp}": {"strategy": name, "amp": amp, "channels_last": True} for amp in types}
    found["none-fp16"] = {"strategy": "none", "amp": "fp16"}
    found["parameters-fp16"] = {"strategy": "flat", "average": "parameters", "amp": "fp16"}
    found["every-fp16"] = {"strategy": "bucketed", "every": 2, "amp": "fp16"}
    found["adam-fp16"] = {"strategy": "all_reduce", "optimizer": "adam", "amp": "fp16"}
    found["clip"] = {"strategy": "all_reduce", "clip_norm": CLIP}
    found["clip-fp16"] = {"strategy": "all_reduce", "clip_norm": CLIP, "amp": "fp16"}
    found["clip-too-early"] = found["clip-fp16"]
    return found


SHORT_CASES = in_short_types()


def trial_of(name: str) -> Trial:
    return msgspec.structs.replace(TRIAL, **CASES[name])


def telescope(rank: int) -> tuple[float, float]:
    """PowerSGD by itself, on gradients that we choose: how far the sum of all that it gave out is from the sum of all
    true means; and how far, if what it still keeps is counted, too."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8, bias=False)
    strategy = DDPPowerSGD(msgspec.structs.replace(TRIAL, strategy="ddp_powersgd"))
    network = strategy.prepare(model)
    given, true = torch.zeros(8, 8), torch.zeros(8, 8)
    torch.manual_seed(1 + rank)
    for _ in range(WHOLE_STEPS + 10):
        model.zero_grad()
        inputs = torch.randn(4, 8)
        network(inputs).square().sum().backward()
        [own] = torch.autograd.grad(model(inputs).square().sum(), [model.weight])
        dist.all_reduce(own)
        given += model.weight.grad
        true += own / RANKS
    [kept] = strategy.state.error_dict.values()
    dist.all_reduce(kept)
    return (given - true).norm().item(), (given + kept.view(8, 8) / RANKS - true).norm().item()


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
    trial = msgspec.structs.replace(SHORT, **SHORT_CASES[name])
    scales = Scales(rank, overflows=overflows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "on_device", scales.on_device)
        patch.setattr(loop, "make_scaler", scales.scaler)
        if name == "clip-too-early":
            patch.setattr(torch.amp.GradScaler, "unscale_", lambda *_: None)  # then the optimizer does it, at the end
        tensors, said = learn(rank, trial, strategy_of(trial))
    return tensors, said, scales.seen


def run_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    learned, said, scales = {}, {}, {}
    for name in CASES:
        learned[name], said[name] = learn(rank, trial_of(name), strategy_of(trial_of(name)))
    far = telescope(rank)
    torch.set_default_dtype(torch.float32)
    for name in SHORT_CASES:
        overflows = name.endswith("fp16") and not name.startswith("clip")
        learned[name], said[name], scales[name] = run_case(name, rank, overflows=overflows)
    leave_behind(folder, rank, learned, (said, far, scales))


class World(msgspec.Struct):
    learned: list[Learned]
    said: list[dict[str, Said]]
    telescopes: list[tuple[float, float]]
    scales: list[dict[str, list[float]]]

    def hashes(self, name: str) -> list[list[dict[str, str]]]:
        """Step by step, of each rank."""
        fingerprints = [said[name].fingerprints for said in self.said]
        return [[mark.parameters for mark in step] for step in zip(*fingerprints, strict=True)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    kind = tuple[dict[str, Said], tuple[float, float], dict[str, list[float]]]
    learned, heard = run(run_rank, (str(folder),), RANKS, folder, kind)
    return World(learned, *map(list, zip(*heard, strict=True)))


def agreed(world: World, name: str, what: str = "parameters") -> list[bool]:
    """Step by step: whether all ranks held the same bits."""
    steps = zip(*(said[name].fingerprints for said in world.said), strict=True)
    return [all(getattr(found, what) == getattr(step[0], what) for found in step) for step in steps]


def test_averaging_parameters_is_averaging_gradients_under_sgd_and_is_not_under_adam(world: World) -> None:
    for rank in world.learned:
        assert apart(rank["parameters-every-1"], rank["gradients"]) <= 1e-12
        assert apart(rank["parameters-adam"], rank["gradients-adam"]) > 1e-3
    assert apart(world.learned[0]["parameters-adam"], world.learned[1]["parameters-adam"]) == 0


@pytest.mark.parametrize("every", [1, 2, 5])
def test_parameters_drift_apart_and_meet_at_every_average(world: World, every: int) -> None:
    """8 batches an epoch: with every = 5, the average at the end of an epoch comes after 3 steps."""
    met = agreed(world, f"parameters-every-{every}")
    ends = [(step % 8 + 1) % every == 0 or step % 8 == 7 for step in range(STEPS)]
    assert met == ends


def test_while_gradients_add_up_nothing_drifts(world: World) -> None:
    assert agreed(world, "gradients-every-5") == [True] * STEPS


def test_without_an_average_they_never_meet(world: World) -> None:
    assert agreed(world, "none") == [False] * STEPS


@pytest.mark.parametrize("name", ["ddp_fp16", "ddp_bf16"])
def test_rounding_stays_within_its_band_and_is_seen(world: World, name: str) -> None:
    """The band is (n + 1) u (analysis/correctness.py). Less than a hundredth of it: then nothing would be rounded."""
    limit = error_bound(trial_of(name))
    for said in world.said:
        assert limit / 100 < said[name].audit.error < limit
    assert apart(world.learned[0][name], world.learned[1][name]) == 0


def test_bfloat16_has_three_bits_less_than_float16(world: World) -> None:
    half, brain = (world.said[0][name].audit.error for name in ("ddp_fp16", "ddp_bf16"))
    assert brain / half == pytest.approx(8, rel=0.5)


@pytest.mark.parametrize(("name", "bits"), [("ddp_fp16", 11), ("ddp_bf16", 8)])
def test_what_is_learned_from_rounded_gradients_stays_near(world: World, name: str, bits: int) -> None:
    """Each step's gradient is off by (n + 1) u times its length at most, and momentum makes ten times as much of it.
    Gradients are shorter than 2 here. To first order, a step is then off by less than lr × 10 × 2 × (n + 1) u."""
    error = apart(world.learned[0][name], world.learned[0]["gradients"])
    assert 0 < error < STEPS * 0.1 * 10 * 2 * (RANKS + 1) * 2.0**-bits


def test_powersgd_leaves_much_out_and_loses_nothing(world: World) -> None:
    for without, counted in world.telescopes:
        assert without > 0.1
        assert counted < 1e-12


@pytest.mark.parametrize("name", ["ddp_powersgd", "ddp_powersgd-large"])
def test_powersgd_agrees_on_all_ranks_and_the_audit_says_how_far_it_is(world: World, name: str) -> None:
    assert apart(world.learned[0][name], world.learned[1][name]) == 0
    assert world.said[0][name].audit.error > 0.01


@pytest.mark.parametrize("rounds", ["", "-every"])
def test_buffers_are_treated_as_torch_ddp_treats_them(world: World, rounds: str) -> None:
    """Bit by bit what DDP makes of them on every rank; and so, at the end, different on each."""
    for rank in world.learned:
        by_hand, by_ddp = rank[f"norm-all_reduce{rounds}"], rank[f"norm-ddp{rounds}"]
        names = [name for name in by_hand if "running" in name]
        assert names
        assert all(torch.allclose(by_hand[name], by_ddp[name], rtol=0, atol=1e-12) for name in names)
    assert not any(agreed(world, f"norm-all_reduce{rounds}", "buffers"))
    assert not any(agreed(world, f"norm-ddp{rounds}", "buffers"))
    assert all(agreed(world, f"norm-all_reduce{rounds}"))


def test_buffers_that_nobody_shares_go_farther_apart(world: World) -> None:
    def spread(name: str) -> float:
        return apart(*({key: rank[name][key] for key in rank[name] if "mean" in key} for rank in world.learned[:2]))

    assert spread("norm-none") > spread("norm-all_reduce") > 0


def test_in_short_types_all_ranks_end_with_the_same_bits(world: World) -> None:
    for name in SHORT_CASES:
        first = world.learned[0][name]
        assert all(tensor.isfinite().all() for tensor in first.values()), name
        assert name.startswith("none") or all(apart(rank[name], first) == 0 for rank in world.learned), name


def test_an_overflow_on_one_rank_skips_the_step_on_all_and_halves_their_scale(world: World) -> None:
    expected = [2.0**10] * OVERFLOWS_AT + [2.0**9] * (SHORT_STEPS - OVERFLOWS_AT)
    for name in [*(f"{name}-fp16" for name in AVERAGING), "adam-fp16"]:
        assert all(scales[name] == expected for scales in world.scales), name
        steps = world.hashes(name)
        assert all(rank == steps[0][0] for rank in steps[0]), name
        assert steps[OVERFLOWS_AT] == steps[OVERFLOWS_AT - 1], name
        assert steps[OVERFLOWS_AT + 1] != steps[OVERFLOWS_AT] != steps[0], name


def test_gradients_that_add_up_are_scaled_and_looked_through_once_a_round(world: World) -> None:
    """Steps 2 and 3 are a round, which is skipped."""
    assert all(scales["every-fp16"] == [2.0**10, 2.0**9, 2.0**9] for scales in world.scales)
    steps = world.hashes("every-fp16")
    assert steps[1] == steps[2] == steps[3] != steps[5]


def test_where_each_rank_steps_by_itself_it_skips_by_itself(world: World) -> None:
    for name in ("none-fp16", "parameters-fp16"):
        assert [scales[name][-1] for scales in world.scales] == [2.0**10, 2.0**9, 2.0**10]


def test_the_scale_is_taken_off_before_clipping(world: World) -> None:
    """Three times its roundoff a step is what float16 may do; what is clipped a thousand times too short is far off."""
    true, late, early = (world.learned[0][name] for name in ("clip", "clip-fp16", "clip-too-early"))
    limit = 3 * SHORT_STEPS * 2.0**-11 * CLIP
    assert 0 < apart(late, true) < limit
    assert apart(early, true) > 3 * limit


def test_in_short_types_the_audit_still_finds_the_mean(world: World) -> None:
    exact = [f"{name}-{amp}" for name in AVERAGING for amp in TYPES if not STRATEGIES[name].rounding]
    for name in SHORT_CASES.keys() & {*exact}:
        for said in world.said:
            assert said[name].audit.error < EXACT["float32"], name


# One batch in a shorter type

CPU = torch.device("cpu")


@pytest.mark.parametrize("amp", TYPES)
def test_products_are_short_and_the_rest_is_not(amp: str) -> None:
    seen: dict[type[nn.Module], torch.dtype] = {}
    model = make_model(Trial(model="net"), (1, 28, 28), 10)
    for module in model.modules():
        module.register_forward_hook(lambda module, _, outputs: seen.update({type(module): outputs.dtype}))
    with autocast(Trial(amp=amp), CPU):
        loss = F.cross_entropy(model(torch.randn(3, 1, 28, 28)), torch.zeros(3, dtype=torch.long), reduction="sum")
    loss.backward()
    assert seen[nn.Conv2d] == seen[nn.Linear] == TYPES[amp]
    assert loss.dtype == torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in model.parameters()} == {torch.float32}


def test_without_amp_there_is_no_scale_and_nothing_is_short() -> None:
    assert not make_scaler(Trial(), CPU).is_enabled()
    assert not make_scaler(Trial(amp="bf16"), CPU).is_enabled()
    assert make_scaler(Trial(amp="fp16"), CPU).is_enabled()
    with autocast(Trial(), CPU):
        assert nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32
