"""A trial's rules, and its spelling as command-line arguments and as TOML."""

import tomllib
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ddptui.config.catalog import COMPOSITES, OPERATIONS, STRATEGIES
from ddptui.config.checks import DESYNCHRONIZE
from ddptui.config.fields import FIELDS, choices, meaningless
from ddptui.config.parser import parse
from ddptui.config.preset import Preset
from ddptui.config.trial import CompositeName, OperationName, Trial, TrialError
from ddptui.config.values import from_arguments, make_trial, parse_assignment
from ddptui.config.values import to_arguments as spelled
from ddptui.store.presets import as_toml

LATE = {"at": "aggregate", "ranks": [1], "sleep_ms": 10}
SEE, MEASURE = {"primitives": "see"}, {"primitives": "measure"}
PIPELINED = MEASURE | {"cadence": "pipelined"}
OVER_GLOO = {"backend": "gloo", "device": "cuda"}
RING, WITH_RING, SINGLE = {"strategy": "ring"}, "has no effect with strategy = 'ring'", {"launch": "single"}
NOT_IN = SINGLE, {"launch": "dp"}, {"strategy": "none"}


def faulty(kind: str, **fields: Any) -> dict[str, Any]:
    return {"fault": [{"kind": kind, "rank": 0, "step": 5}], **fields}


FAULTS_WITHOUT_EFFECT = [
    *((faulty(kind, **fields), "fault[0].kind", f"call no collective, so '{kind}' has no effect")
      for kind in ("skip", "mismatch", *DESYNCHRONIZE) for fields in NOT_IN),
    *((faulty(kind, world_size=1), "fault[0].kind", f"'{kind}' needs at least two ranks")
      for kind in DESYNCHRONIZE),
    *((faulty(kind, every=2), "fault[0].kind", "changes an average, but with every = 2 some steps have none")
      for kind in ("other_shape", "wrong_order")),
    *((faulty(kind, strategy=strategy), "fault[0].kind", f"sends buckets that '{kind}' cannot change; use ")
      for kind in ("other_shape", "wrong_order") for strategy in ("bucketed", "ddp")),
    (faulty("wrong_order", strategy="flat"), "fault[0].kind", "calls one collective in a step: there is no order"),
]  # fmt: skip


def test_what_a_trial_is_without_values_alone_and_with_dp() -> None:
    trial = make_trial({})
    assert (trial.launch, trial.world_size, trial.strategy) == ("spawn", 2, "all_reduce")
    trial = make_trial({"launch": "single"})
    assert (trial.world_size, trial.strategy) == (1, None)
    trial = make_trial({"launch": "dp", "world_size": 3})
    assert (trial.world_size, trial.strategy) == (3, None)


@pytest.mark.parametrize(
    ("values", "key", "why"),
    [
        ({"launch": "mpi"}, "launch", "unknown value"),
        ({"world_size": 0}, "world_size", "expected an integer of 1 or more"),
        ({"world_size": 2000}, "world_size", "expected an integer of 1024 at most"),
        ({"world_size": True}, "world_size", "expected an integer, got true"),
        ({"lr": float("nan")}, "lr", "expected a number of 0 or more"),
        ({"epochs": -1}, "epochs", "expected an integer of 0 or more"),
        ({"epochs": 0, "instruments": "off"}, "epochs", "without instruments ranks report only at their end"),
        ({"launch": "single", "strategy": "ddp"}, "strategy", "no other rank to average with"),
        ({"launch": "single", "world_size": 2}, "world_size", "one rank"),
        ({"steps": 3, "warmup_steps": 3}, "steps", "all 3 are warm-up; set more than 3"),
        ({"batch_size": 2, "world_size": 3}, "batch_size", "is too small for 3 ranks"),
        ({"shape": [1, 8, 8]}, "shape", "only dataset = 'random'"),
        ({"bottleneck": [LATE | {"ranks": [5]}]}, "bottleneck[0].ranks", "no rank 5: the trial has ranks 0 to 1"),
        ({"bottleneck": [LATE | {"ranks": []}]}, "bottleneck[0].ranks", "lists no rank"),
        ({"bottleneck": [LATE | {"ranks": [-1]}]}, "bottleneck[0].ranks[0]", "expected an integer of 0 or more"),
        ({"bottleneck": [LATE | {"sleep_ms": float("inf")}]}, "bottleneck[0].sleep_ms", "86400000 at most"),
        ({"bottleneck": [LATE | {"from_step": 5, "to_step": 4}]}, "bottleneck[0].to_step", "4 is before"),
        ({"bottleneck": [LATE | {"at": "forward", "per": "call"}]}, "bottleneck[0].per", "needs at = 'aggregate'"),
        ({"launch": "dp", "bottleneck": [LATE | {"per": "call"}]}, "bottleneck[0].per", "and a process group"),
        ({"launch": "dp", "bottleneck": [LATE | {"at": "backward"}]}, "bottleneck[0].at", "one backward for all"),
        ({"strategy": "none", "bottleneck": [LATE]}, "bottleneck[0].at", "aggregates nothing"),
        ({"bottleneck": [{"at": "start", "ranks": [0]}]}, "bottleneck[0].sleep_ms", "a delay needs its length"),
        ({"bottleneck": [LATE | {"at": "start", "every": 2}]}, "bottleneck[0].at", "a rank starts once"),
        ({"steps": 9, "bottleneck": [LATE | {"from_step": 9}]}, "bottleneck[0].from_step", "would never happen:"),
        ({"bottleneck": [LATE | {"ranks": [1, 1]}]}, "bottleneck[0].ranks", "lists a rank twice"),
        ({"every": 0}, "every", "expected an integer of 1 or more"),
        ({"strategy": "ddp", "bucket_mb": 65537}, "bucket_mb", "expected a number of 65536 at most"),
        ({"strategy": "none", "average": "parameters"}, "average", "strategy = 'none' averages no parameters"),
        ({"strategy": "ddp", "average": "parameters"}, "average", "averages gradients during backward, but parameters"),
        ({"strategy": "ddp", "static_graph": True, "every": 2}, "static_graph", "fails with static_graph in no_sync"),
        ({"sync_batchnorm": True, "device": "cpu"}, "sync_batchnorm", "SyncBatchNorm runs on GPUs only"),
        ({"share_gpu": True, "backend": "nccl"}, "share_gpu", "NCCL refuses two ranks on one GPU; use backend ="),
        ({"share_gpu": True, "gpus_per_rank": 2}, "share_gpu", "cannot be combined with gpus_per_rank > 1"),
        ({"share_gpu": True, "device": "cpu"}, "share_gpu", "there is no GPU to share; use `--set share_gpu=false`"),
        ({"backend": "nccl", "device": "cpu"}, "backend", "nccl needs GPUs"),
        ({"backend": "mpi", "launch": "spawn"}, "backend", "mpi needs ranks that mpirun starts: run `mpirun"),
        ({"launch": "single", "backend": "mpi"}, "backend", "one process has no process group"),
        ({"backend": "gloo", "device": "cuda", "strategy": "ring"}, "strategy", "'ring' sends from rank to rank, but"),
        ({"amp": "bf16", "dtype": "float64"}, "amp", "autocast does not convert float64"),
        ({"amp": "fp16", "strategy": "ddp_powersgd"}, "amp", "fp16 overflows at times, and PowerSGD would"),
        ({"compile": True, "strategy": "ddp", "bucket_mb": 0.5}, "bucket_mb", "use 1 or more, or compile = false"),
        ({"channels_last": True, "model": "mlp"}, "channels_last", "the model mlp has no convolutions"),
        ({"pin_memory": True, "device": "cpu"}, "pin_memory", "it has no effect with device = 'cpu'"),
        ({"compile": True, "launch": "dp"}, "compile", "nn.DataParallel copies the model again in every step"),
        ({"clip_norm": 0}, "clip_norm", "expected a number above 0"),
        ({"num_workers": 65}, "num_workers", "expected an integer of 64 at most"),
        ({"strategy": "ring", "mistake": "group_of_one"}, "mistake", "'group_of_one' needs strategy = 'all_reduce' or"),
        ({"strategy": "flat", "mistake": "no_division"}, "mistake", "'no_division' needs strategy = 'all_reduce'"),
        ({"strategy": "ddp_fp16", "mistake": "average_again"}, "mistake", "'average_again' needs strategy = 'ddp'"),
        ({"launch": "single", "mistake": "divide_twice"}, "mistake", "needs strategy = 'all_reduce'"),
        ({"launch": "dp", "mistake": "average_again"}, "mistake", "needs strategy = 'ddp'"),
        ({"mistake": "no_set_epoch", "epochs": 1}, "mistake", "shows only from the second epoch on; set epochs to 2"),
        *FAULTS_WITHOUT_EFFECT,
        # fields that mean nothing with a strategy, or in one process
        (RING | {"reduction": "avg"}, "reduction", f"{WITH_RING}: its reduction operator cannot be chosen"),
        (RING | {"bucket_mb": 5}, "bucket_mb", f"{WITH_RING}: its bucket size cannot be chosen"),
        (RING | {"static_graph": True}, "static_graph", f"{WITH_RING}: it is an option of torch DDP"),
        (RING | {"powersgd_rank": 2}, "powersgd_rank", f"{WITH_RING}: it does not use low-rank matrices"),
        (SINGLE | {"average": "parameters"}, "average", "one process has no other rank to average with"),
        (SINGLE | {"reduction": "avg"}, "reduction", "one process has no other rank to average with"),
        (SINGLE | {"bucket_mb": 5}, "bucket_mb", "one process sends no gradients"),
        (SINGLE | {"gradient_as_bucket_view": True}, "gradient_as_bucket_view", "one process has no buckets"),
        (SINGLE | {"static_graph": True}, "static_graph", "it is an option of torch DDP"),
        (SINGLE | {"powersgd_rank": 2}, "powersgd_rank", "one process sends no gradients"),
        (SINGLE | {"sync_batchnorm": True}, "sync_batchnorm", "one process has no other rank's statistics to use"),
        (SINGLE | {"hash_every": 5}, "hash_every", "there is one copy of the model"),
        (SINGLE | {"share_gpu": True}, "share_gpu", "one process has no other rank to share a GPU with"),
        ({"launch": "dp", "hash_every": 5}, "hash_every", "has no effect with launch = 'dp': there is one copy of"),
        # primitives
        (SEE | {"strategy": "ring"}, "strategy", "has no effect with primitives = 'see'"),
        (SEE | {"iterations": 5}, "iterations", "has no effect with primitives = 'see': it is for"),
        (SEE | {"amp": "bf16"}, "amp", "has no effect with primitives = 'see': it is for training"),
        (SEE | {"operations": ["local_sum"]}, "operations", "local_sum sends nothing"),
        (SEE | OVER_GLOO, "operations", "gloo cannot send or receive tensors"),
        (MEASURE | {"epochs": 2}, "epochs", "has no effect with primitives = 'measure'"),
        (MEASURE | {"launch": "dp"}, "launch", "'dp' has no process group"),
        (MEASURE | {"world_size": 1}, "world_size", "primitives need at least two ranks"),
        (MEASURE | {"root": 2}, "root", "no rank 2: the trial has ranks 0 to 1"),
        (MEASURE | {"min_bytes": 2048, "max_bytes": 1024}, "min_bytes", "2048 is more than max_bytes ="),
        (MEASURE | {"operations": ["reduce", "reduce"]}, "operations", "lists an operation twice"),
        (MEASURE | OVER_GLOO | {"operations": ["reduce"], "composites": ["ring"]}, "composites", "'ring' sends from"),
        (PIPELINED | {"operations": ["reduce", "send_recv"]}, "operations", "send_recv cannot be pipelined: it is"),
        (PIPELINED | {"composites": ["ring"]}, "composites", "cannot be pipelined: a composite waits"),
        ({"root": 1}, "root", "has no effect with training: it is for primitives = 'see' or primitives = 'measure'"),
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
        {"sync_batchnorm": True, "device": "cuda", "backend": "nccl"},
        {"mistake": "no_set_epoch", "epochs": 1, "steps": 9},
        {"mistake": "no_set_epoch", "strategy": "ring"},
        {"mistake": "no_set_epoch", "launch": "single"},
        {"mistake": "group_of_one", "strategy": "ddp"},
        {"share_gpu": True, "backend": "gloo", "device": "cuda"},
        {"share_gpu": True, "strategy": "ring"},  # there may be GPUs enough, where NCCL sends
        {"backend": "gloo", "strategy": "ring"},
        {"backend": "gloo", "strategy": "ring", "device": "cuda", "world_size": 1},
        {"backend": "gloo", "device": "cuda", "strategy": "gather_scatter"},
        {"backend": "mpi", "launch": "task"},
        {"compile": True, "launch": "single", "device": "cuda"},
    ],
)
def test_a_trial_next_to_one_that_cannot_be_is_let_in(values: dict[str, Any]) -> None:
    trial = make_trial(values)
    assert {key: getattr(trial, key) for key in values} == values


@pytest.mark.parametrize("launch", ["launch", "spawn"])
@pytest.mark.parametrize("strategy", [name for name in choices("strategy") if name != "none"])
def test_every_other_fault_is_let_in(launch: str, strategy: str) -> None:
    bound = {"other_shape", "wrong_order"} if STRATEGIES[strategy].overlaps else set()
    bound |= {"wrong_order"} if strategy == "flat" else set()
    for kind in {*choices("kind")} - bound:
        [fault] = make_trial(faulty(kind, launch=launch, strategy=strategy, average="gradients")).fault
        assert fault.kind == kind
    for kind in ("skip", "mismatch"):  # from before, also with one rank
        assert make_trial(faulty(kind, strategy=strategy, world_size=1)).fault


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
OFF_DEFAULT: dict[str, Any] = {
    "reduction": "avg",
    "bucket_mb": 5,
    "gradient_as_bucket_view": True,
    "static_graph": True,
    "powersgd_rank": 2,
}


@pytest.mark.parametrize("strategy", choices("strategy"))
@pytest.mark.parametrize("launch", ["launch", "spawn"])
def test_a_strategy_has_a_use_for_its_own_fields_and_for_no_others(launch: str, strategy: str) -> None:
    of_primitives = {field for field, facts in FIELDS.items() if "train" not in facts.work}
    useless = {field for field, strategies in MEANT_FOR.items() if strategy not in strategies}
    assert set(meaningless(launch, strategy, None)) - {"start_method", "init_method", *of_primitives} == useless
    for field in MEANT_FOR.keys() - useless:
        values = {"launch": launch, "strategy": strategy, field: OFF_DEFAULT[field]}
        assert getattr(make_trial(values), field) == OFF_DEFAULT[field]


def test_choices_and_facts_can_be_listed() -> None:
    assert choices("launch") == ("single", "dp", "process", "launch", "spawn", "task", "command")
    assert choices("strategy")[:3] == ("none", "all_reduce", "all_reduce_async")
    assert choices("at") == ("start", "data", "forward", "backward", "aggregate", "link")
    assert choices("world_size") == choices("model") == choices("no_such_field") == ()
    assert get_args(OperationName) == tuple(OPERATIONS)
    assert get_args(CompositeName) == tuple(COMPOSITES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("key=1", 1),
        ("key=[1, 2]", [1, 2]),
        ('key=[{at = "start", ranks = [0], sleep_ms = 1}]', [{"at": "start", "ranks": [0], "sleep_ms": 1}]),
        ('key="1"', "1"),
        (" key = net ", "net"),
        ("key=", ""),
        ("key=/data/a=b", "/data/a=b"),
        ("key=1\nother = 2", "1\nother = 2"),
    ],
)
def test_an_assignment_is_read_as_toml_or_else_as_a_bare_string(text: str, value: object) -> None:
    assert parse_assignment(text) == ("key", value)


def test_arguments_name_only_what_is_off_its_default_and_quote_what_could_be_mistaken() -> None:
    assert spelled(make_trial({})) == []
    assert spelled(make_trial({"name": "a", "epochs": 1, "lr": 0.5})) == ["epochs=1", "lr=0.5"]
    assert spelled(make_trial({"bottleneck": [LATE]})) == [
        'bottleneck=[{at = "aggregate", ranks = [1], sleep_ms = 10.0}]'
    ]
    assert spelled(make_trial({"data_dir": "1"})) == ['data_dir="1"']
    assert spelled(make_trial({"data_dir": "/data"})) == ["data_dir=/data"]


def test_arguments_that_make_no_trial_are_refused() -> None:
    with pytest.raises(TrialError, match='expected an integer, got "many"'):
        from_arguments(["world_size=many"])
    with pytest.raises(TrialError, match="wurld_size: unknown key; did you mean 'world_size'"):
        from_arguments(["wurld_size=2"])


FINITE = st.floats(0, 1e6)
# What an argument can hold: no NUL, no half of a surrogate pair.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
FAULT = {"kind": "kill", "rank": 1, "step": 5}
BUCKETS = {"gradient_as_bucket_view": True, "static_graph": True, "bucket_mb": 0.5}
SPELLED: list[dict[str, Any]] = [
    {"launch": "single", "start": "cold", "threads": 4, "sched_batch": True, "width": 8, "depth": 3, "save": True},
    {"launch": "dp", "world_size": 3, "batch_size": 96, "bottleneck": [LATE | {"every": 2, "from_step": 3}]},
    {"launch": "process", "start_method": "fork", "init_method": "file", "instruments": "off", "fault": []},
    {"launch": "task", "strategy": "none", "mistake": None, "steps": 101, "warmup_steps": 4},
    {"dataset": "random", "model": "mlp", "shape": [1, 8, 8], "classes": 7, "samples": 512, "dtype": "float64"},
    {"average": "parameters", "every": 8, "reduction": "avg", "hash_every": 5, "batch_norm": True, "epochs": 7},
    {"strategy": "ddp", "mistake": "average_again", "sync_batchnorm": True} | BUCKETS,
    {"strategy": "ddp_powersgd", "powersgd_rank": 4, "device": "cuda", "backend": "nccl", "gpus_per_rank": 2},
    {"momentum": 0.9, "weight_decay": 1e-4, "optimizer": "adam", "seed": 2**62, "download": True, "clip_norm": 1e-6},
    {"share_gpu": True, "amp": "bf16", "channels_last": True, "num_workers": 2, "pin_memory": True, "compile": True},
    {"bottleneck": [LATE | {"per": "call", "to_step": 9, "jitter": "uniform"}, LATE], "fault": [FAULT, FAULT]},
    {"primitives": "see", "operations": ["reduce", "gather"], "reduce_ops": ["max"], "root": 1},
    {"primitives": "measure", "composites": ["ring"], "min_bytes": 8, "max_bytes": 2**33, "step_factor": 2},
    {"primitives": "measure", "iterations": 20, "cell_s": 1e-3, "cadence": "barrier", "stall_s": 5.5},
    {"launch": "command", "command": ["train"], "env": ["NAME=\r\n"]},
]


def as_kept(trial: Trial) -> Preset:
    """The preset of this trial, read from the text that is kept with a run."""
    named = msgspec.structs.replace(trial, name="a")
    made = Preset(name="made", title="?", group="", about="", baseline="a", repeats=1, trials=(named,), kind=trial.kind)
    written = tomllib.loads(as_toml(made))
    assert [] not in written.values()
    assert parse("made", written, {}) == made
    return made


@pytest.mark.parametrize("values", SPELLED)
def test_a_trial_survives_its_spelling_as_arguments_and_being_kept_as_toml(values: dict[str, Any]) -> None:
    trial = make_trial(values)
    assert as_kept(trial).trials[0] == msgspec.structs.replace(trial, name="a")
    if trial.kind != "command":
        assert from_arguments(spelled(trial)) == trial


@given(TEXTS, FINITE, FINITE.filter(bool), st.integers(0, 2**62))
@example("\x7f ", 1e-300, 1.0, 0)
def test_whatever_a_text_or_a_number_is_it_survives_both(text: str, lr: float, sleep_ms: float, seed: int) -> None:
    late = LATE | {"sleep_ms": sleep_ms}
    trial = make_trial({"data_dir": text, "lr": lr, "seed": seed, "bottleneck": [late]})
    assert from_arguments(spelled(trial)) == trial
    as_kept(trial)
    as_kept(make_trial({"launch": "command", "command": ["sh", text], "env": [f"NAME={text}"]}))


def test_every_field_of_a_trial_is_spelled() -> None:
    """A new field is to be put above, or its spelling is not tried."""
    told = {"name", "lr", "data_dir"} | {field for values in SPELLED for field in values}
    assert told == {field.name for field in msgspec.structs.fields(Trial)}


def test_overrides_of_the_other_kind_are_refused() -> None:
    see = {"kind": "primitives", "trial": [{"name": "a", "primitives": "see"}]}
    for table, key in ((see, "epochs"), (see, "iterations"), ({"trial": [{"name": "a"}]}, "root")):
        with pytest.raises(TrialError, match=f"^{key}: has no effect with"):
            parse("made", table, {key: 5})


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
