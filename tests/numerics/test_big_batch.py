"""Every strategy equals one process with the big batch: float64, to 1e-12, worlds of 3 and 4, uneven batches too.

Worlds of 2 would hide mistakes in the order of a sum (a + b = b + a), float32 mistakes in scale.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.wire.messages import Audit
from tests.numerics import odd_models
from tests.numerics.odd_models import EXACT
from tests.numerics.ranks import Learned, Said, apart, learn, leave_behind, run
from workers.aggregate import strategy_of

REDUCING = [name for name in EXACT if STRATEGIES[name].reduces]
AFTER_THE_STEP = [name for name in EXACT if not STRATEGIES[name].overlaps]
# 11 samples a batch, 58 samples: no share is even in worlds of 3 and 4, and the last batch of an epoch has 3 samples,
# so that in a world of 4 one rank has none. Two epochs of 6 batches: rounds of 4 steps are cut short at their ends.
TRIAL = Trial(
    model="mlp", width=12, depth=2, dataset="random", shape=(5,), samples=58, classes=4, batch_size=11, steps=12,
    dtype="float64", momentum=0.9, weight_decay=0.01, lr=0.1, world_size=1, warmup_steps=0,
)  # fmt: skip
CLIP = {"clip_norm": 0.1}
IMAGES = {"model": "tests.numerics.convolutions:make", "shape": (3, 6, 5)}  # in no two dimensions alike
SMALL_BUCKETS = 0.0005  # MB: some of the model's six tensors each


def variants() -> dict[str, dict[str, Any]]:
    """Every way to average that must be right, by a name of its own, as fields of a trial."""
    found: dict[str, dict[str, Any]] = {name: {"strategy": name} for name in EXACT}
    found |= {f"{name}-avg": {"strategy": name, "reduction": "avg"} for name in REDUCING}
    found |= {f"{name}-buckets": {"strategy": name, "bucket_mb": SMALL_BUCKETS} for name in ("bucketed", "ddp")}
    found["ddp-views"] = {"strategy": "ddp", "gradient_as_bucket_view": True}
    found["ddp-static"] = {"strategy": "ddp", "static_graph": True}
    found["ddp-average_again"] = {"strategy": "ddp", "mistake": "average_again"}
    return found


def of_parameters() -> dict[str, dict[str, Any]]:
    return {f"{name}-parameters": {"strategy": name, "average": "parameters"} for name in AFTER_THE_STEP}


def accumulating() -> dict[str, dict[str, Any]]:
    """Gradients of 4 steps of 11 samples each add up: 44 samples an average, and one process has them at once."""
    ways = [*EXACT, "bucketed-buckets", "ddp-buckets", "ddp-views", "ddp-average_again"]
    return {f"{name}-every": variants()[name] | {"every": 4} for name in ways}


def of_images() -> dict[str, dict[str, Any]]:
    """Weights of convolutions, their gradients and the images lie in memory with their channels innermost; and all
    ranks clip the same mean. (Where parameters are averaged each would clip its own: something else.)"""
    ways = {name: variants()[name] for name in EXACT}
    ways |= {name: accumulating()[name] for name in ("flat-every", "bucketed-every")}
    clipped = {name: fields | CLIP for name, fields in ways.items()} | of_parameters()
    return {f"{name}-images": fields | IMAGES | {"channels_last": True} for name, fields in clipped.items()}


def in_parts() -> dict[str, dict[str, Any]]:
    """Ranks of two devices each, and a model that draws or has statistics: no big batch is like them, but the mean over
    the ranks is a mean. 16 samples a batch: with 2 of them or more, each part has statistics."""
    common = {"gpus_per_rank": 2, "samples": 48, "batch_size": 16, "steps": 6}
    dropout = common | {"model": "net", "shape": (1, 28, 28)}
    statistics = common | {"batch_norm": True}
    return {
        "all_reduce-dropout": {"strategy": "all_reduce"} | dropout,
        "all_reduce-statistics": {"strategy": "all_reduce"} | statistics,
        "ddp-statistics": {"strategy": "ddp"} | statistics,
    }


WRONG: dict[str, dict[str, Any]] = {
    "none": {"strategy": "none"},
    "group_of_one": {"strategy": "all_reduce", "mistake": "group_of_one"},
    "group_of_one-ddp": {"strategy": "ddp", "mistake": "group_of_one"},
    "divide_twice": {"strategy": "all_reduce", "mistake": "divide_twice"},
    "no_division": {"strategy": "all_reduce", "mistake": "no_division"},
    "no_first_broadcast": {"strategy": "all_reduce", "mistake": "no_first_broadcast"},
    "no_set_epoch": {"strategy": "all_reduce", "mistake": "no_set_epoch"},
}
RIGHT = variants() | of_parameters() | accumulating() | of_images()
ALL = RIGHT | in_parts() | WRONG


def trial_of(name: str, world_size: int) -> Trial:
    return msgspec.structs.replace(TRIAL, world_size=world_size, **ALL[name])


@pytest.mark.filterwarnings("ignore:Running all_reduce on global rank")
def run_rank(rank: int, world_size: int, folder: str) -> None:
    """Learn in every way in turn, in one process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size)
    learned, said = {}, {}
    for name in ALL:
        trial = trial_of(name, world_size)
        learned[name], said[name] = learn(rank, trial, strategy_of(trial))
    leave_behind(folder, rank, learned, Told(said, odd_models.all_errors(rank), odd_models.ring_errors(rank)))


class Told(msgspec.Struct):
    said: dict[str, Said]
    odd: dict[str, list[float]]  # step by step, in units of the dtype's rounding
    ring: list[float]


class World(msgspec.Struct):
    size: int
    learned: list[Learned]
    said: list[dict[str, Said]]
    odd: list[dict[str, list[float]]]
    ring: list[list[float]]

    def farther_than(self, limit: float, expected: dict[str, Tensor], names: Iterable[str]) -> dict[str, float]:
        """How far off the farthest rank is, of the ways in which that is more than the limit."""
        found = {name: max(apart(rank[name], expected) for rank in self.learned) for name in names}
        return {name: off for name, off in found.items() if not off <= limit}

    def audits(self, name: str) -> list[Audit]:
        found = [said[name].audit for said in self.said]
        assert None not in found, name
        return found  # type: ignore[return-value]


@pytest.fixture(scope="module", params=[3, pytest.param(4, marks=pytest.mark.rare)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp(f"world-{request.param}")
    size: int = request.param
    learned, told = run(run_rank, (size, str(folder)), size, folder, Told)
    return World(size, learned, *([getattr(each, name) for each in told] for name in ("said", "odd", "ring")))


def alone(**fields: Any) -> dict[str, Tensor]:
    """What one process learns."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    trial = msgspec.structs.replace(TRIAL, launch="single", strategy=None, **fields)
    try:
        return learn(0, trial, strategy_of(trial))[0]
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def big_batch() -> dict[str, Tensor]:
    return alone()


@pytest.fixture(scope="module")
def bigger_batch() -> dict[str, Tensor]:
    """Four times the batch; 6 steps of 11 samples an epoch are 2 of 44."""
    return alone(batch_size=44, steps=4)


@pytest.fixture(scope="module")
def images() -> dict[str, dict[str, Tensor]]:
    """In the order in which torch lays out by itself; by how they are averaged."""
    return {
        "gradients": alone(**IMAGES, **CLIP),
        "every": alone(batch_size=44, steps=4, **IMAGES, **CLIP),
        "parameters": alone(**IMAGES),
    }


def test_every_strategy_equals_one_process_with_the_big_batch(world: World, big_batch: dict[str, Tensor]) -> None:
    assert world.farther_than(1e-12, big_batch, [*variants(), *of_parameters()]) == {}


def test_accumulating_equals_one_process_with_the_bigger_batch(world: World, bigger_batch: dict[str, Tensor]) -> None:
    assert world.farther_than(1e-12, bigger_batch, accumulating()) == {}


def test_clipping_equals_one_process_that_clips_and_the_layout_in_memory_changes_nothing(
    world: World, images: dict[str, dict[str, Tensor]]
) -> None:
    for name in of_images():
        expected = images["every" if "-every" in name else ALL[name].get("average", "gradients")]
        assert world.farther_than(1e-12, expected, [name]) == {}
        assert {rank[name]["0.weight"].stride() for rank in world.learned} == {(27, 1, 9, 3)}, name
    assert apart(images["gradients"], images["parameters"]) > 1e-3, "clipping is not felt"


def test_all_ranks_end_with_the_same_bits(world: World) -> None:
    first, *others = world.learned
    for name in RIGHT:
        for rank in others:
            assert all(torch.equal(rank[name][tensor], first[name][tensor]) for tensor in rank[name]), name


def test_a_mistake_does_not_equal_it_and_the_ranks_drift_apart_or_agree_on_what_is_wrong(
    world: World, big_batch: dict[str, Tensor]
) -> None:
    assert all(apart(rank[name], big_batch) > 1e-3 for rank in world.learned for name in WRONG)
    between = {name: apart(world.learned[0][name], world.learned[1][name]) for name in WRONG}
    assert {name for name in WRONG if between[name] > 1e-3} == {"none", "group_of_one", "no_first_broadcast"}
    assert {between[name] for name in ("group_of_one-ddp", "divide_twice", "no_division", "no_set_epoch")} == {0}


def test_the_audit_finds_the_mean(world: World) -> None:
    for name in [*RIGHT, *in_parts()]:
        for audit in world.audits(name):
            assert max(audit.error, audit.worst_error) <= 1e-15 * world.size, name
            assert audit.scale == pytest.approx(1, abs=1e-12), name


@pytest.mark.parametrize(
    ("name", "scale"), [("group_of_one-ddp", -1), ("divide_twice", -1), ("no_division", 1), ("no_first_broadcast", 0)]
)
def test_the_audit_finds_the_factor(name: str, scale: int, world: World) -> None:
    """The world's size to this power."""
    for audit in world.audits(name):
        assert audit.scale == pytest.approx(float(world.size) ** scale, rel=1e-12)
        assert audit.scaled_error == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("name", "power"), [("none", 0), ("group_of_one", -1)])
def test_the_audit_finds_that_each_kept_its_own(name: str, power: int, world: World) -> None:
    for audit in world.audits(name):
        assert audit.own_scale == pytest.approx(float(world.size) ** power, rel=1e-12)
        assert audit.own_error == pytest.approx(0, abs=1e-6)
        assert audit.error > 0.1


def test_only_the_one_who_forgets_set_epoch_has_the_same_order_each_epoch(world: World) -> None:
    for said in world.said:
        assert {len(said[name].orders) for name in ALL} == {2}
        assert [name for name in ALL if len(set(said[name].orders)) == 1] == ["no_set_epoch"]


def test_odd_models_get_the_mean(world: World) -> None:
    for found in world.odd:
        assert {name: errors for name, errors in found.items() if max(errors) >= 20} == {}
        assert len(found) == len(odd_models.CASES)


def test_the_ring_sums_tensors_of_any_length_to_the_same_bits_everywhere(world: World) -> None:
    assert max(max(errors) for errors in world.ring) < 1e-14
