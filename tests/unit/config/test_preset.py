"""A trial's rules, and its spelling as command-line arguments and as TOML."""

import re
import tomllib
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ddptui.config.checks import DESYNCHRONIZE
from ddptui.config.fields import FIELDS, choices, meaningless
from ddptui.config.parser import parse
from ddptui.config.preset import Preset
from ddptui.config.primitives import OPERATIONS, REDUCE_OPS, Cadence
from ddptui.config.strategies import COMPOSITES, STRATEGIES
from ddptui.config.trial import Bottleneck, CompositeName, OperationName, Trial, TrialError
from ddptui.config.trial_text import from_arguments, parse_assignment
from ddptui.config.trial_text import to_arguments as spelled
from ddptui.config.values import make_trial
from ddptui.store.presets import as_toml

LATE = {"at": "aggregate", "ranks": [1], "sleep_ms": 10}


def test_a_trial_with_no_values_is_two_spawned_ranks_that_all_reduce() -> None:
    trial = make_trial({})
    assert (trial.launch, trial.world_size, trial.strategy) == ("spawn", 2, "all_reduce")


def test_single_is_one_rank_without_a_strategy() -> None:
    trial = make_trial({"launch": "single"})
    assert (trial.world_size, trial.strategy) == (1, None)


def test_dp_has_replicas_but_no_strategy() -> None:
    trial = make_trial({"launch": "dp", "world_size": 3})
    assert (trial.world_size, trial.strategy) == (3, None)


@pytest.mark.parametrize(
    ("values", "key", "why"),
    [
        ({"launch": "mpi"}, "launch", "unknown value"),
        ({"world_size": 0}, "world_size", "expected an integer of 1 or more"),
        ({"world_size": 2000}, "world_size", "expected an integer of 1024 at most"),
        ({"world_size": "2"}, "world_size", 'expected an integer, got "2"'),
        ({"world_size": True}, "world_size", "expected an integer, got true"),
        ({"lr": float("nan")}, "lr", "expected a number of 0 or more"),
        ({"lr": float("inf")}, "lr", "finite"),
        ({"epochs": -1}, "epochs", "expected an integer of 0 or more"),
        ({"epochs": 0, "instruments": "off"}, "epochs", "without instruments ranks report only at their end"),
        ({"launch": "single", "strategy": "ddp"}, "strategy", "no other rank to average with"),
        ({"launch": "dp", "strategy": "ddp"}, "strategy", "the gather on the output device"),
        ({"launch": "single", "world_size": 2}, "world_size", "one rank"),
        ({"steps": 3, "warmup_steps": 3}, "steps", "all 3 are warm-up; set more than 3"),
        ({"batch_size": 2, "world_size": 3}, "batch_size", "is too small for 3 ranks"),
        ({"shape": [1, 8, 8]}, "shape", "only dataset = 'random'"),
        ({"bottleneck": [LATE | {"ranks": [5]}]}, "bottleneck[0].ranks", "no rank 5: the trial has ranks 0 to 1"),
        ({"bottleneck": [LATE, LATE | {"ranks": [2]}]}, "bottleneck[1].ranks", "no rank 2"),
        ({"bottleneck": [LATE | {"ranks": []}]}, "bottleneck[0].ranks", "lists no rank"),
        ({"bottleneck": [LATE | {"ranks": [-1]}]}, "bottleneck[0].ranks[0]", "expected an integer of 0 or more"),
        ({"bottleneck": [LATE | {"sleep_ms": -1}]}, "bottleneck[0].sleep_ms", "expected a number of 0 or more"),
        ({"bottleneck": [LATE | {"sleep_ms": float("inf")}]}, "bottleneck[0].sleep_ms", "86400000 at most"),
        ({"bottleneck": [LATE | {"from_step": 5, "to_step": 4}]}, "bottleneck[0].to_step", "4 is before"),
        ({"bottleneck": [LATE | {"at": "forward", "per": "call"}]}, "bottleneck[0].per", "needs at = 'aggregate'"),
        ({"launch": "dp", "bottleneck": [LATE | {"per": "call"}]}, "bottleneck[0].per", "and a process group"),
        ({"launch": "dp", "bottleneck": [LATE | {"at": "backward"}]}, "bottleneck[0].at", "one backward for all"),
        ({"strategy": "none", "bottleneck": [LATE]}, "bottleneck[0].at", "aggregates nothing"),
        ({"launch": "single", "bottleneck": [LATE | {"ranks": [0]}]}, "bottleneck[0].at", "aggregates nothing"),
        ({"bottleneck": [{"at": "start", "ranks": [0]}]}, "bottleneck[0].sleep_ms", "a delay needs its length"),
        ({"bottleneck": [LATE | {"sleep_ms": 0}]}, "bottleneck[0].sleep_ms", "more than 0"),
        ({"average": "buffers"}, "average", "unknown value"),
        ({"reduction": "max"}, "reduction", "unknown value"),
        ({"mistake": "typo"}, "mistake", "unknown value"),
        ({"every": 0}, "every", "expected an integer of 1 or more"),
        ({"hash_every": 0}, "hash_every", "expected an integer of 1 or more"),
        ({"strategy": "ddp", "bucket_mb": 0}, "bucket_mb", "expected a number above 0"),
        ({"strategy": "ddp", "bucket_mb": 65537}, "bucket_mb", "expected a number of 65536 at most"),
        ({"strategy": "ddp_powersgd", "powersgd_rank": 0}, "powersgd_rank", "expected an integer of 1 or more"),
        ({"strategy": "none", "average": "parameters"}, "average", "strategy = 'none' averages no parameters"),
        *(
            (
                {"strategy": strategy, "average": "parameters"},
                "average",
                f"strategy = '{strategy}' averages gradients during backward, but parameters change only after it; "
                "set it for other trials alone: `--set TRIAL:average=parameters`",
            )
            for strategy in ("bucketed", "ddp", "ddp_fp16", "ddp_bf16", "ddp_powersgd")
        ),
        ({"strategy": "ddp", "static_graph": True, "every": 2}, "static_graph", "fails with static_graph in no_sync"),
        ({"sync_batchnorm": True, "device": "cpu"}, "sync_batchnorm", "SyncBatchNorm runs on GPUs only"),
        (
            {"share_gpu": True, "backend": "nccl"},
            "share_gpu",
            "NCCL refuses two ranks on one GPU; use backend = 'auto'",
        ),
        ({"share_gpu": True, "gpus_per_rank": 2}, "share_gpu", "cannot be combined with gpus_per_rank > 1"),
        ({"share_gpu": True, "device": "cpu"}, "share_gpu", "there is no GPU to share; use `--set share_gpu=false`"),
        ({"backend": "nccl", "device": "cpu"}, "backend", "nccl needs GPUs"),
        *(
            ({"backend": "mpi", "launch": launch}, "backend", "mpi needs ranks that mpirun starts: run `mpirun")
            for launch in ("process", "launch", "spawn")
        ),
        ({"launch": "single", "backend": "mpi"}, "backend", "one process has no process group"),
        (
            {"backend": "gloo", "device": "cuda", "strategy": "ring"},
            "strategy",
            "'ring' sends from rank to rank, but gloo",
        ),
        ({"amp": "bf16", "dtype": "float64"}, "amp", "autocast does not convert float64"),
        ({"amp": "fp32"}, "amp", "unknown value"),
        ({"amp": "fp16", "strategy": "ddp_powersgd"}, "amp", "fp16 overflows at times, and PowerSGD would"),
        ({"compile": True, "strategy": "ddp", "bucket_mb": 0.5}, "bucket_mb", "use 1 or more, or compile = false"),
        ({"channels_last": True, "model": "mlp"}, "channels_last", "the model mlp has no convolutions"),
        (
            {"channels_last": True, "model": "linears", "dataset": "random", "classes": 3},
            "channels_last",
            "the model linears has no convolutions",
        ),
        ({"pin_memory": True, "device": "cpu"}, "pin_memory", "it has no effect with device = 'cpu'"),
        ({"compile": True, "launch": "dp"}, "compile", "nn.DataParallel copies the model again in every step"),
        ({"compile": True, "gpus_per_rank": 2}, "compile", "nn.DataParallel copies the model again in every step"),
        ({"clip_norm": 0}, "clip_norm", "expected a number above 0"),
        ({"clip_norm": float("inf")}, "clip_norm", "must be a finite number"),
        ({"num_workers": -1}, "num_workers", "expected an integer of 0 or more"),
        ({"num_workers": 65}, "num_workers", "expected an integer of 64 at most"),
        (
            {"strategy": "ring", "mistake": "group_of_one"},
            "mistake",
            "'group_of_one' needs strategy = 'all_reduce' or 'ddp'",
        ),
        *(
            ({"strategy": strategy, "mistake": mistake}, "mistake", f"'{mistake}' needs strategy = '{with_which}'")
            for strategy, mistake, with_which in (
                ("ddp", "divide_twice", "all_reduce"),
                ("flat", "no_division", "all_reduce"),
                ("none", "no_first_broadcast", "all_reduce"),
                ("all_reduce", "average_again", "ddp"),
                ("ddp_fp16", "average_again", "ddp"),
            )
        ),
        ({"launch": "single", "mistake": "divide_twice"}, "mistake", "needs strategy = 'all_reduce'"),
        ({"launch": "dp", "mistake": "average_again"}, "mistake", "needs strategy = 'ddp'"),
        ({"mistake": "no_set_epoch", "epochs": 1}, "mistake", "shows only from the second epoch on; set epochs to 2"),
    ],
)
def test_a_trial_that_cannot_be_is_refused_by_its_key(values: dict[str, Any], key: str, why: str) -> None:
    with pytest.raises(TrialError) as refusal:
        make_trial(values)
    assert refusal.value.key == key
    assert why in refusal.value.why
    assert str(refusal.value) == f"{key}: {refusal.value.why}"


@pytest.mark.parametrize(
    "values",
    [
        {"average": "parameters", "every": 8},
        {"strategy": "ddp", "static_graph": True},
        {"strategy": "ddp", "every": 2},
        {"sync_batchnorm": True},
        {"sync_batchnorm": True, "device": "cuda", "backend": "nccl"},
        {"mistake": "no_set_epoch", "epochs": 2},
        {"mistake": "no_set_epoch", "epochs": 1, "steps": 9},
        {"mistake": "no_set_epoch", "strategy": "ring"},
        {"mistake": "no_set_epoch", "launch": "single"},
        {"mistake": "group_of_one"},
        {"mistake": "group_of_one", "strategy": "ddp"},
        {"mistake": "average_again", "strategy": "ddp"},
        {"launch": "single", "every": 2},
        {"share_gpu": True, "backend": "gloo", "device": "cuda"},
        {"share_gpu": True, "strategy": "ring"},  # there may be GPUs enough, where NCCL sends
        {"backend": "gloo", "strategy": "ring"},
        {"backend": "gloo", "strategy": "ring", "device": "cuda", "world_size": 1},
        {"backend": "gloo", "device": "cuda", "strategy": "gather_scatter"},
        {"backend": "mpi", "launch": "task"},
        {"amp": "fp16", "device": "cpu", "clip_norm": 1.5},
        {"channels_last": True, "model": "resnet18"},
        {"channels_last": True, "model": "mine:Net"},
        {"pin_memory": True, "num_workers": 4, "launch": "dp"},
        {"compile": True, "launch": "single", "device": "cuda"},
    ],
)
def test_a_trial_next_to_one_that_cannot_be_is_let_in(values: dict[str, Any]) -> None:
    trial = make_trial(values)
    assert {key: getattr(trial, key) for key in values} == values


# Faults


def faulty(kind: str, **fields: Any) -> dict[str, Any]:
    return {"fault": [{"kind": kind, "rank": 0, "step": 5}], **fields}


NOT_IN = {"launch": "single"}, {"launch": "dp"}, {"strategy": "none"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        *((faulty(kind, **fields), f"call no collective, so '{kind}' has no effect")
          for kind in ("skip", "mismatch", *DESYNCHRONIZE) for fields in NOT_IN),
        *((faulty(kind, world_size=1), f"'{kind}' needs at least two ranks") for kind in DESYNCHRONIZE),
        *((faulty(kind, every=2), f"'{kind}' changes an average, but with every = 2 some steps have none")
          for kind in ("other_shape", "wrong_order")),
        *((faulty(kind, strategy=strategy), f"strategy = '{strategy}' sends buckets that '{kind}' cannot change; use ")
          for kind in ("other_shape", "wrong_order") for strategy in ("bucketed", "ddp", "ddp_bf16", "ddp_powersgd")),
        (faulty("wrong_order", strategy="flat"), "calls one collective in a step: there is no order; use strategy = "),
    ],
)  # fmt: skip
def test_a_fault_that_would_have_no_effect_is_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(TrialError) as refusal:
        make_trial(values)
    assert refusal.value.key == "fault[0].kind"
    assert why in refusal.value.why


@pytest.mark.parametrize("launch", ["process", "launch", "spawn", "task"])
@pytest.mark.parametrize("strategy", [name for name in choices("strategy") if name != "none"])
def test_every_other_fault_is_let_in(launch: str, strategy: str) -> None:
    bound = {"other_shape", "wrong_order"} if STRATEGIES[strategy].overlaps else set()
    bound |= {"wrong_order"} if strategy == "flat" else set()
    for kind in {*choices("kind")} - bound:
        [fault] = make_trial(faulty(kind, launch=launch, strategy=strategy, average="gradients")).fault
        assert fault.kind == kind
    for kind in ("skip", "mismatch"):  # from before, also with one rank
        assert make_trial(faulty(kind, strategy=strategy, world_size=1)).fault


# What means nothing

DDPS = {"ddp", "ddp_fp16", "ddp_bf16", "ddp_powersgd"}
REDUCING = {"all_reduce", "all_reduce_async", "reduce_broadcast", "reduce_scatter_all_gather", "flat", "bucketed"}
# The fields that only some strategies have a use for.
MEANT_FOR: dict[str, set[str]] = {
    "reduction": REDUCING,
    "bucket_mb": {"bucketed", "ddp", "ddp_fp16", "ddp_bf16"},
    "gradient_as_bucket_view": DDPS,
    "static_graph": DDPS,
    "powersgd_rank": {"ddp_powersgd"},
}
# Off their defaults.
OF_A_GROUP: dict[str, Any] = {
    "reduction": "avg",
    "bucket_mb": 5,
    "gradient_as_bucket_view": True,
    "static_graph": True,
    "powersgd_rank": 2,
    "backend": "gloo",
    "average": "parameters",
    "sync_batchnorm": True,
    "hash_every": 5,
    "share_gpu": True,
}


@pytest.mark.parametrize("strategy", choices("strategy"))
@pytest.mark.parametrize("launch", ["process", "launch", "spawn"])
def test_a_strategy_has_a_use_for_its_own_fields_and_for_no_others(launch: str, strategy: str) -> None:
    of_primitives = {field for field, facts in FIELDS.items() if "train" not in facts.work}
    useless = {field for field, strategies in MEANT_FOR.items() if strategy not in strategies}
    assert set(meaningless(launch, strategy, None)) - {"start_method", "init_method", *of_primitives} == useless
    for field in MEANT_FOR.keys() - useless:
        values = {"launch": launch, "strategy": strategy, field: OF_A_GROUP[field]}
        assert getattr(make_trial(values), field) == OF_A_GROUP[field]


@pytest.mark.parametrize(
    ("field", "strategy", "why"),
    [
        *(
            ("reduction", strategy, "its reduction operator cannot be chosen")
            for strategy in ("none", "ring", "gather_scatter", "all_gather", *sorted(DDPS))
        ),
        *(
            ("bucket_mb", strategy, "its bucket size cannot be chosen")
            for strategy in ("none", "all_reduce", "flat", "ring", "ddp_powersgd")
        ),
        *(
            (field, strategy, "it is an option of torch DDP")
            for field in ("gradient_as_bucket_view", "static_graph")
            for strategy in ("none", "all_reduce", "bucketed")
        ),
        *(
            ("powersgd_rank", strategy, "it does not use low-rank matrices")
            for strategy in ("none", "bucketed", "ddp_fp16")
        ),
    ],
)
def test_a_field_that_means_nothing_with_a_strategy_is_refused_with_the_reason(
    field: str, strategy: str, why: str
) -> None:
    with pytest.raises(TrialError) as refusal:
        make_trial({"strategy": strategy, field: OF_A_GROUP[field]})
    assert str(refusal.value) == f"{field}: has no effect with strategy = '{strategy}': {why}"


@pytest.mark.parametrize("launch", ["single", "dp"])
@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("backend", "one process has no process group"),
        ("average", "one process has no other rank to average with"),
        ("reduction", "one process has no other rank to average with"),
        ("bucket_mb", "one process sends no gradients"),
        ("gradient_as_bucket_view", "one process has no buckets"),
        ("static_graph", "it is an option of torch DDP"),
        ("powersgd_rank", "one process sends no gradients"),
        ("sync_batchnorm", "one process has no other rank's statistics to use"),
        ("hash_every", "there is one copy of the model"),
        ("share_gpu", "one process has no other rank to share a GPU with"),
    ],
)
def test_a_field_of_a_group_means_nothing_in_one_process(launch: str, field: str, why: str) -> None:
    assert field in OF_A_GROUP
    with pytest.raises(TrialError) as refusal:
        make_trial({"launch": launch, field: OF_A_GROUP[field]})
    assert str(refusal.value) == f"{field}: has no effect with launch = '{launch}': {why}"


# Bottlenecks, choices and spellings


def test_a_delay_before_every_collective_fits_where_there_are_collectives() -> None:
    assert make_trial({"bottleneck": [LATE | {"per": "call"}]}).bottleneck[0].per == "call"


def test_dp_can_be_delayed_at_its_aggregation() -> None:
    assert make_trial({"launch": "dp", "bottleneck": [LATE]}).bottleneck[0].at == "aggregate"


def test_the_choices_of_a_field_can_be_listed() -> None:
    assert choices("launch") == ("single", "dp", "process", "launch", "spawn", "task", "command")
    assert choices("strategy")[:3] == ("none", "all_reduce", "all_reduce_async")
    assert choices("at") == ("start", "data", "forward", "backward", "aggregate", "link")
    assert choices("mistake")[:2] == ("group_of_one", "divide_twice")
    assert choices("average") == ("gradients", "parameters")
    assert choices("reduction") == ("sum", "avg")
    assert choices("world_size") == choices("model") == choices("no_such_field") == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("key=1", 1),
        ("key=0.5", 0.5),
        ("key=true", True),
        ("key=[1, 2]", [1, 2]),
        ('key=[{at = "start", ranks = [0], sleep_ms = 1}]', [{"at": "start", "ranks": [0], "sleep_ms": 1}]),
        ("key=net", "net"),
        ('key="1"', "1"),
        (" key = net ", "net"),
        ("key=", ""),
        ("key=/data/a=b", "/data/a=b"),
        ("key=1\nother = 2", "1\nother = 2"),
    ],
)
def test_an_assignment_is_read_as_toml_or_else_as_a_bare_string(text: str, value: object) -> None:
    assert parse_assignment(text) == ("key", value)


def test_an_assignment_without_an_equals_sign_is_refused() -> None:
    with pytest.raises(TrialError, match="expected KEY=VALUE"):
        parse_assignment("epochs")


def test_arguments_name_only_what_is_off_its_default() -> None:
    assert spelled(make_trial({})) == []
    assert spelled(make_trial({"name": "a", "epochs": 1, "lr": 0.5})) == ["epochs=1", "lr=0.5"]


def test_arguments_leave_the_defaults_of_a_bottleneck_out() -> None:
    assert spelled(make_trial({"bottleneck": [LATE]})) == [
        'bottleneck=[{at = "aggregate", ranks = [1], sleep_ms = 10.0}]'
    ]


def test_a_string_that_could_be_taken_for_something_else_is_quoted() -> None:
    assert spelled(make_trial({"data_dir": "1"})) == ['data_dir="1"']
    assert spelled(make_trial({"data_dir": "/data"})) == ["data_dir=/data"]


def test_arguments_that_make_no_trial_are_refused() -> None:
    with pytest.raises(TrialError, match='expected an integer, got "many"'):
        from_arguments(["world_size=many"])
    with pytest.raises(TrialError, match="wurld_size: unknown key; did you mean 'world_size'"):
        from_arguments(["wurld_size=2"])


MODES = st.sampled_from([mode for mode in choices("launch") if mode != "command"])
FINITE = st.floats(0, 1e6)
# What an argument can hold: no NUL, no half of a surrogate pair; DEL has a test of its own.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x7f"), max_size=20)
OWN_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "start": st.sampled_from(choices("start")),
    "threads": st.integers(1, 64),
    "sched_batch": st.booleans(),
    "model": TEXTS.filter(lambda text: ":" not in text),
    "width": st.integers(1, 4096),
    "depth": st.integers(1, 99),
    "samples": st.integers(1, 10**9),
    "dtype": st.sampled_from(choices("dtype")),
    "data_dir": TEXTS,
    "download": st.booleans(),
    "batch_norm": st.booleans(),
    "every": st.just(1) | st.integers(1, 10**6),
    "epochs": st.integers(2, 10**9),  # one is too few for no_set_epoch
    "lr": FINITE,
    "momentum": FINITE,
    "weight_decay": FINITE,
    "optimizer": st.sampled_from(choices("optimizer")),
    "seed": st.integers(0, 2**62),
    "save": st.booleans(),
    "device": st.sampled_from(choices("device")),
    "amp": st.sampled_from(choices("amp")),
    "channels_last": st.booleans(),
    "num_workers": st.integers(0, 64),
    "pin_memory": st.booleans(),
    "clip_norm": st.floats(1e-6, 1e6),
    "compile": st.booleans(),
    "stall_s": st.floats(5, 86_400),
}
# What means something with any strategy; and with some, as MEANT_FOR has it.
GROUP_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "backend": st.sampled_from(["auto", "gloo"]),
    "hash_every": st.integers(1, 10**6),
    "gpus_per_rank": st.integers(1, 64),
    "share_gpu": st.booleans(),
}
STRATEGY_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "reduction": st.just("avg"),
    "bucket_mb": st.floats(1e-6, 65536),
    "gradient_as_bucket_view": st.just(True),
    "static_graph": st.just(True),
    "powersgd_rank": st.integers(1, 1024),
}
PRIMITIVE_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "operations": st.lists(st.sampled_from(get_args(OperationName)), unique=True),
    "reduce_ops": st.lists(st.sampled_from(REDUCE_OPS), unique=True),
    "root": st.integers(0, 1),
    "composites": st.lists(st.sampled_from(get_args(CompositeName)), unique=True),
    "min_bytes": st.integers(4, 1024),
    "max_bytes": st.integers(1024, 2**33),
    "step_factor": st.integers(2, 65536),
    "iterations": st.integers(2, 20_000),
    "cell_s": st.floats(1e-3, 3600),
    "cadence": st.sampled_from(get_args(Cadence)),
}
# Drawn where the trials are, for what they may be depends on the others.
FIELDS_WITH_RULES = {
    "launch", "start_method", "world_size", "strategy", "average", "sync_batchnorm", "mistake", "batch_size",
    "dataset", "shape", "classes", "steps", "warmup_steps", "instruments", "bottleneck",
    "fault", "init_method",
}  # fmt: skip
# Each strategy without a mistake, and each mistake with each strategy that it is made with.
STRATEGIES_AND_MISTAKES = [
    *((strategy, None) for strategy in choices("strategy")),
    ("all_reduce", "group_of_one"),
    ("all_reduce", "divide_twice"),
    ("all_reduce", "no_division"),
    ("all_reduce", "no_first_broadcast"),
    ("ddp", "group_of_one"),
    ("ddp", "average_again"),
    ("ring", "no_set_epoch"),
]


@st.composite
def faults(draw: st.DrawFn, launch: str, values: dict[str, Any]) -> dict[str, Any]:
    processes = 1 if launch == "dp" else values.get("world_size", 1)
    strategy = values.get("strategy") or "none"
    never = {"skip", "mismatch"} if strategy == "none" else set()
    never |= {*DESYNCHRONIZE} if strategy == "none" or processes == 1 else set()
    never |= {"other_shape", "wrong_order"} if values.get("every", 1) > 1 or STRATEGIES[strategy].overlaps else set()
    never |= {"wrong_order"} if strategy == "flat" else set()
    kinds = [kind for kind in choices("kind") if kind not in never]
    return {
        "kind": draw(st.sampled_from(kinds)),
        "rank": draw(st.integers(0, processes - 1)),
        "step": draw(st.integers(0, 100)),
    }


@st.composite
def bottlenecks(draw: st.DrawFn, launch: str, world_size: int, strategy: str | None) -> dict[str, Any]:
    agrees = launch in ("dp", "command") or strategy not in (None, "none")
    never = ("link", "start") if launch == "command" else ("link",)
    sites = [site for site in choices("at") if site not in never and (site != "aggregate" or agrees)]
    at = draw(st.sampled_from([site for site in sites if launch != "dp" or site != "backward"]))
    from_step = draw(st.integers(0, 100)) if at != "start" else 0
    bounded = {"to_step": draw(st.integers(from_step, 200))} if at != "start" and draw(st.booleans()) else {}
    return bounded | {
        "at": at,
        "ranks": draw(st.lists(st.integers(0, world_size - 1), min_size=1, max_size=4, unique=True)),
        "sleep_ms": draw(FINITE.filter(bool)),
        "per": draw(st.sampled_from(["step", "call"] if at == "aggregate" and launch != "dp" else ["step"])),
        "every": draw(st.integers(1, 10)) if at != "start" else 1,
        "from_step": from_step,
        "jitter": draw(st.sampled_from(choices("jitter"))),
    }


@st.composite
def agreements(draw: st.DrawFn, strategy: str, values: dict[str, Any]) -> dict[str, Any]:
    """What a group is told besides its strategy. A static graph sends in each step; SyncBatchNorm needs GPUs."""
    own = {field: drawn for field, drawn in STRATEGY_FIELDS.items() if strategy in MEANT_FOR[field]}
    if values.get("every", 1) > 1:
        own.pop("static_graph", None)
    if strategy not in {"none", "bucketed", *DDPS}:
        own["average"] = st.just("parameters")
    chosen: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=GROUP_FIELDS | own))
    if values.get("device") != "cpu" and chosen.get("gpus_per_rank", 1) == 1:
        chosen["sync_batchnorm"] = draw(st.booleans())
    return chosen


def without_contradictions(values: dict[str, Any]) -> dict[str, Any]:
    """The same without the first of any two fields that do not go together."""
    several, on_cpu = values.get("gpus_per_rank", 1) > 1, values.get("device") == "cpu"
    if values.get("device") == "cuda" and values.get("strategy") == "ring":
        values.pop("backend", None)
    if values.get("dtype") == "float64":
        values.pop("amp", None)
    if values.get("amp") == "fp16" and values.get("strategy") == "ddp_powersgd":
        values.pop("amp")
    if values.get("model") == "mlp":
        values.pop("channels_last", None)
    if on_cpu:
        values.pop("pin_memory", None)
    if on_cpu or several:
        values.pop("share_gpu", None)
    if several or values["launch"] == "dp" or (values.get("bucket_mb") or 1) < 1:
        values.pop("compile", None)
    return values


COMMAND_FIELDS = {
    "command": st.lists(TEXTS.filter(bool), min_size=1, max_size=4),
    "env": st.lists(TEXTS.map(lambda text: f"NAME={text}"), max_size=3),
}


@st.composite
def trials_of_commands(draw: st.DrawFn) -> Trial:
    values = draw(st.fixed_dictionaries(COMMAND_FIELDS))
    values |= {"launch": "command", "warmup_steps": draw(st.integers(0, 9))}
    values["bottleneck"] = draw(st.lists(bottlenecks("command", 64, None), max_size=3))
    return make_trial(values)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    launch = draw(MODES)
    values: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=OWN_FIELDS))
    values |= {"launch": launch, "batch_size": draw(st.integers(64, 1024))}
    world_size, strategy, mistake = 1, None, draw(st.sampled_from([None, "no_set_epoch"]))
    if launch != "single":
        world_size = values["world_size"] = draw(st.integers(1, 64))
    if launch not in ("single", "dp"):
        strategy, mistake = draw(st.sampled_from(STRATEGIES_AND_MISTAKES))
        values["strategy"] = strategy
        values |= draw(agreements(strategy, values))
    if launch != "dp":
        values["instruments"] = draw(st.sampled_from(choices("instruments")))
    if launch in ("process", "spawn"):
        values["start_method"] = draw(st.sampled_from(choices("start_method")))
    values["mistake"] = mistake
    if mistake not in (None, "no_set_epoch"):  # what would hide it
        values["world_size"] = world_size = max(2, world_size)
        values.pop("reduction", None)
        if mistake == "no_first_broadcast":
            values.pop("average", None)
    if draw(st.booleans()):
        shape = draw(st.lists(st.integers(1, 64), min_size=1, max_size=3))
        values |= {"dataset": "random", "model": "mlp", "shape": shape, "classes": draw(st.integers(2, 100))}
    if draw(st.booleans()):
        values["hash_every"] = min(values["hash_every"], 101) if values.get("hash_every") else None
        values |= {"steps": draw(st.integers(101, 199)), "warmup_steps": draw(st.integers(0, 4))}
    values["bottleneck"] = draw(st.lists(bottlenecks(launch, world_size, strategy), max_size=3))
    values["fault"] = draw(st.lists(faults(launch, values), max_size=2))
    return make_trial(without_contradictions(values))


@st.composite
def trials_of_primitives(draw: st.DrawFn) -> Trial:
    values: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=PRIMITIVE_FIELDS))
    launch = draw(st.sampled_from(["process", "launch", "spawn"]))
    if values.get("cadence") == "pipelined":
        pipeline = [name for name in values.pop("operations", []) if OPERATIONS[name].pipelines]
        values |= {"operations": pipeline, "composites": []}
    return make_trial({"primitives": "measure", "launch": launch, "world_size": draw(st.integers(2, 64)), **values})


OF_DDP = {"bucket_mb": 0.5, "gradient_as_bucket_view": True, "static_graph": True, "sync_batchnorm": True}


@given(trials() | trials_of_primitives())
@example(make_trial({"primitives": "see", "operations": ["reduce"], "reduce_ops": ["max"], "root": 1}))
@example(make_trial({"average": "parameters", "every": 8, "reduction": "avg", "hash_every": 5, "batch_norm": True}))
@example(make_trial({"strategy": "ddp", "mistake": "average_again"} | OF_DDP))
@example(make_trial({"strategy": "ddp_powersgd", "powersgd_rank": 4}))
def test_a_trial_survives_its_spelling_as_arguments(trial: Trial) -> None:
    assert from_arguments(spelled(trial)) == trial


@given(trials() | trials_of_primitives() | trials_of_commands())
@example(make_trial({"average": "parameters", "every": 8, "reduction": "avg", "hash_every": 5, "batch_norm": True}))
@example(make_trial({"strategy": "ddp", "mistake": "average_again"} | OF_DDP))
@example(make_trial({"strategy": "ddp_powersgd", "powersgd_rank": 4}))
@example(make_trial({"launch": "command", "command": ["train"], "env": ["NAME=\r\n"]}))
def test_a_trial_survives_being_kept_as_toml(trial: Trial) -> None:
    named = msgspec.structs.replace(trial, name="a")
    preset = Preset(
        name="made", title="?", group="", about="", baseline="a", repeats=1, trials=(named,), kind=trial.kind
    )
    written = tomllib.loads(as_toml(preset))
    assert parse("made", written, {}) == preset
    assert [] not in written.values()


def test_an_override_of_the_other_kind_is_refused() -> None:
    see = {"kind": "primitives", "trial": [{"name": "a", "primitives": "see"}]}
    for table, key in ((see, "epochs"), (see, "iterations"), ({"trial": [{"name": "a"}]}, "root")):
        with pytest.raises(TrialError, match=f"^{key}: has no effect with"):
            parse("made", table, {key: 5})


def test_a_name_that_is_misspelt_in_a_list_has_its_nearest_spelling() -> None:
    table = {"kind": "primitives", "trial": [{"name": "a", "primitives": "see", "operations": ["reduce", "gater"]}]}
    with pytest.raises(TrialError, match=re.escape("operations[1]") + ".*did you mean 'gather'"):
        parse("made", table, {})


PIPELINED = {"primitives": "measure", "cadence": "pipelined"}


def test_every_primitive_and_composite_has_its_facts() -> None:
    assert get_args(OperationName) == tuple(OPERATIONS)
    assert get_args(CompositeName) == tuple(COMPOSITES)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"primitives": "see", "strategy": "ring"}, "strategy: has no effect with primitives = 'see'"),
        (
            {"primitives": "see", "iterations": 5},
            "iterations: has no effect with primitives = 'see': each primitive is",
        ),
        ({"primitives": "measure", "epochs": 2}, "epochs: has no effect with primitives = 'measure'"),
        ({"primitives": "measure", "launch": "dp"}, "launch: 'dp' has no process group"),
        ({"primitives": "measure", "launch": "single"}, "launch: 'single' has no process group"),
        ({"primitives": "measure", "world_size": 1}, "world_size: primitives need at least two ranks"),
        ({"primitives": "measure", "root": 2}, "root: no rank 2: the trial has ranks 0 to 1"),
        (
            {"primitives": "measure", "min_bytes": 2048, "max_bytes": 1024},
            "min_bytes: 2048 is more than max_bytes = 1024",
        ),
        ({"primitives": "measure", "operations": ["reduce", "reduce"]}, "operations: lists an operation twice"),
        ({"primitives": "see", "operations": ["local_sum"]}, "operations: local_sum sends nothing"),
        (
            PIPELINED | {"operations": ["reduce", "send_recv"]},
            "operations: send_recv cannot be pipelined: it is complete",
        ),
        (PIPELINED | {"operations": ["local_sum"]}, "operations: local_sum cannot be pipelined: it is complete"),
        (PIPELINED | {"composites": ["ring"]}, "composites: cannot be pipelined: a composite waits"),
        ({"root": 1}, "root: has no effect with training: it is for primitives"),
        *(
            (
                {"primitives": "see", field: value},
                f"{field}: has no effect with primitives = 'see': the ranks do not train",
            )
            for field, value in {
                "amp": "bf16",
                "channels_last": True,
                "compile": True,
                "clip_norm": 1.0,
                "num_workers": 2,
                "pin_memory": True,
            }.items()
        ),
        (
            {"primitives": "see", "backend": "gloo", "device": "cuda"},
            "operations: gloo cannot send or receive tensors on a GPU; list the others, without send_recv",
        ),
        (
            {
                "primitives": "measure",
                "backend": "gloo",
                "device": "cuda",
                "operations": ["reduce"],
                "composites": ["ring"],
            },
            "composites: 'ring' sends from rank to rank, but gloo cannot send or receive tensors on a GPU",
        ),
    ],
)
def test_a_trial_of_primitives_that_cannot_be_says_why(values: dict[str, Any], message: str) -> None:
    with pytest.raises(TrialError, match=re.escape(message)):
        make_trial(values)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "primitive"}, "kind: unknown value 'primitive'; one of training, primitives, command"),
        ({"kind": "primitives"}, "kind: 'primitives', but trial a is of kind 'training'; set primitives = 'see' or"),
        ({"defaults": {"primitives": "see"}}, "but trial a is of kind 'primitives'; set kind = 'primitives'"),
    ],
)
def test_the_kind_of_a_preset_and_of_its_trials_must_agree(table: dict[str, Any], message: str) -> None:
    with pytest.raises(TrialError, match=re.escape(message)):
        parse("made", {"trial": [{"name": "a"}], **table}, {})


def test_every_field_of_a_trial_is_spelled() -> None:
    """A new field is to be drawn above, or its spelling is not tried."""
    drawn = {*OWN_FIELDS, *GROUP_FIELDS, *STRATEGY_FIELDS, *FIELDS_WITH_RULES, *PRIMITIVE_FIELDS, *COMMAND_FIELDS}
    drawn |= {"primitives", "name"}
    assert drawn == {field.name for field in msgspec.structs.fields(Trial)}


def test_a_string_with_a_delete_character_survives_its_spelling() -> None:
    trial = make_trial({"data_dir": "\x7f "})
    assert from_arguments(spelled(trial)) == trial


def test_ranks_of_a_group_have_a_strategy_even_if_it_is_called_none() -> None:
    """Either None is refused where there is a group, or it survives its spelling: it must not turn into all_reduce."""
    try:
        trial = make_trial({"launch": "spawn", "strategy": None})
    except TrialError:
        return
    assert from_arguments(spelled(trial)) == trial


def test_a_bottleneck_is_compared_by_value() -> None:
    assert make_trial({"bottleneck": [LATE]}).bottleneck == (Bottleneck(at="aggregate", ranks=(1,), sleep_ms=10.0),)


def test_texts_are_in_chinese_where_there_are_chinese_ones(in_chinese: None) -> None:
    table = {"title": "Which?", "about": "Two.", "trial": [{"name": "a"}], "question": [{"text": "Why?"}]}
    preset = parse("made", {**table, "zh": {"title": "哪个\x1b？"}}, {})
    assert preset.localized_title == "哪个\\x1b？"  # one line that leaves the terminal alone, as in English
    assert preset.localized_about == "Two."
    assert preset.questions[0].localized_text == "Why?"
    preset = parse("made", {**table, "question": [{"text": "Why?", "zh": "为什么？"}]}, {})
    assert preset.localized_title == "Which?"
    assert preset.questions[0].localized_text == "为什么？"


def test_two_questions_differ_in_their_texts_which_are_one_line_each() -> None:
    table = {"title": "Which?", "trial": [{"name": "a"}], "question": [{"text": "Why?\n# now"}, {"text": "Why?"}]}
    assert [question.text for question in parse("made", table, {}).questions] == ["Why? # now", "Why?"]
    with pytest.raises(TrialError, match=r"question\[2\]\.text: another question has this text"):
        parse("made", table | {"question": [*table["question"], {"text": "Why?"}]}, {})  # type: ignore[list-item]
