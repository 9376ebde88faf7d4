"""What GPUs did, from the messages of made-up launches: rates and their part of the peak, clocks, energy, NCCL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ddptui.analysis.gpu_work import tflops
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.results import RankResult
from ddptui.analysis.thinning import MOST_ITEMS
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.overview import results_of
from ddptui.wire.messages import Done, Gpu, Step
from ddptui.wire.records import Ended, Message
from tests.support.builders import MS, by_its_clock, journal, offset, preset_of, result_of, trained, write_run
from tests.support.gpu_launches import MEASURED_MS, NCCL, STEP_MS, STEPS, gpu_launch, steady

PEAK = 989.4  # of an H100 in bf16, 10^12 operations a second
RATE = 8.0  # of `gpu_launch`: 8 samples of 10^12 operations a second


def first_rank(messages: list[Message]) -> RankResult:
    return result_of(messages).ranks[0]


def with_steps(messages: list[Message], change: Callable[[Step], Step]) -> list[Message]:
    return [change(message) if isinstance(message, Step) else message for message in messages]


def test_each_rank_computes_its_samples_in_its_own_time() -> None:
    def slower(step: Step) -> Step:
        longer_ns = 1000 * MS * (step.rank == 1 and step.step == STEPS)
        return msgspec.structs.replace(step, end_ns=step.end_ns + longer_ns)

    result = result_of(with_steps(gpu_launch(), slower))
    assert [rank.tflops for rank in result.ranks] == pytest.approx([RATE, RATE * 10 / 11])
    assert [rank.mfu for rank in result.ranks] == pytest.approx([RATE / PEAK, RATE * 10 / 11 / PEAK])
    assert result.tflops == pytest.approx((RATE + RATE * 10 / 11) / 2)
    assert result.mfu == pytest.approx((RATE + RATE * 10 / 11) / 2 / PEAK)


def test_what_a_rank_computes_as_it_goes_is_what_its_result_says() -> None:
    messages = gpu_launch()
    rank = fold(Live(), [message for message in messages if not isinstance(message, Ended)]).ranks[0]
    assert tflops(rank.flops, rank.samples_per_s) == pytest.approx(first_rank(messages).tflops)


def test_warm_up_is_in_no_figure() -> None:
    """Its step has samples and takes its time, and there are heartbeats beside it."""
    launch = gpu_launch(meter=lambda rank, s: Gpu(sm_mhz=300.0 if s < 0 else 1700.0, joules=(s + 9) ** 2))
    rank = first_rank(
        with_steps(launch, lambda step: msgspec.structs.replace(step, samples=10**9) if step.warmup else step)
    )
    assert (rank.tflops, rank.sm_mhz) == pytest.approx((RATE, 1700))
    assert rank.joules_a_step == pytest.approx((19**2 - 9**2) / 10)


def test_without_instruments_the_rate_is_known_and_what_heartbeats_tell_is_not() -> None:
    measured = {
        "begin_ns": MEASURED_MS * MS,
        "end_ns": (MEASURED_MS + STEPS * STEP_MS) * MS,
        "steps": 10,
        "samples": 80,
    }
    spans = [trained(rank, **measured) for rank in range(2)]
    messages = [message for message in gpu_launch(beats=()) if not isinstance(message, Step)]
    result = result_of([*messages[:-3], *spans, *messages[-3:]])
    assert (result.tflops, result.mfu) == pytest.approx((RATE, RATE / PEAK))
    rank = result.ranks[0]
    assert (rank.sm_mhz, rank.held_back_part, rank.joules_a_step, result.joules_a_step) == (None,) * 4


@pytest.mark.parametrize(
    ("facts", "tflops", "mfu"),
    [
        ({"flops": None, "precision": ""}, None, None),  # the model could not be counted
        ({"name": "NVIDIA Something New"}, RATE, None),
    ],
)
def test_what_is_not_known_is_none_and_no_guess(facts: Any, tflops: float | None, mfu: float | None) -> None:
    result = result_of(gpu_launch(**facts))
    assert (result.tflops, result.mfu) == (tflops, mfu)
    assert (result.ranks[0].tflops, result.ranks[0].mfu) == (tflops, mfu)


def test_ranks_that_share_a_gpu_add_up_to_its_part_and_read_one_counter_which_is_counted_once() -> None:
    result = result_of(gpu_launch((("a",), ("a",))))
    assert [rank.mfu for rank in result.ranks] == pytest.approx([RATE / PEAK] * 2)
    assert (result.mfu, result.tflops) == pytest.approx((2 * RATE / PEAK, RATE))
    assert [rank.joules_a_step for rank in result.ranks] == pytest.approx([500, 500])
    assert result.joules_a_step == pytest.approx(500)


def test_a_rank_of_several_gpus_has_all_their_peaks_but_only_one_is_read_so_their_energy_is_not_known() -> None:
    result = result_of(gpu_launch((("a", "b"), ("c", "d"))))
    assert (result.mfu, result.ranks[0].mfu) == pytest.approx((RATE / (2 * PEAK),) * 2)
    assert [rank.joules_a_step for rank in result.ranks] == [None, None]
    assert (result.joules_a_step, result.ranks[0].sm_mhz) == (None, 1700)


def test_where_a_peak_or_who_shares_a_gpu_is_not_known_only_the_ranks_have_a_part() -> None:
    names = {"b": "NVIDIA Something New"}
    result = result_of(gpu_launch(names=names))
    assert [rank.mfu for rank in result.ranks] == [pytest.approx(RATE / PEAK), None]
    assert (result.mfu, result.tflops) == (None, pytest.approx(RATE))
    assert first_rank(gpu_launch((("a", "b"), ("c", "d")), names=names)).mfu is None
    result = result_of(gpu_launch((("",), ("",))))
    assert (result.mfu, result.joules_a_step) == (None, None)
    assert (result.ranks[0].mfu, result.tflops) == pytest.approx((RATE / PEAK, RATE))


def test_steps_that_were_not_reported_count_like_the_others() -> None:
    """As under `watch --every 5`, or where messages were lost."""
    some = [message for message in gpu_launch() if not isinstance(message, Step) or message.step in (0, 1, 6)]
    result = result_of(some)
    rank = result.ranks[0]
    assert (rank.samples_per_s, rank.tflops, rank.joules_a_step) == pytest.approx((8, RATE, 500))
    assert result.samples_per_s == pytest.approx(2 * 8)


def test_the_clock_is_the_median_and_it_is_held_back_for_a_part_of_the_time() -> None:
    def meter(rank: int, s: float) -> Gpu:
        return Gpu(sm_mhz=1980.0 if s < 8 else 1000.0, held_back=("power cap",) if s == 10 else 0 <= s <= 4)

    rank = first_rank(gpu_launch(meter=meter))
    assert rank.sm_mhz == 1980
    assert rank.held_back_part == pytest.approx(5 / 10)  # the words of older journals do not count


def test_load_memory_and_power_are_those_of_the_measured_time() -> None:
    def meter(rank: int, s: float) -> Gpu:
        inside = 0 <= s <= STEPS
        used = int(s) + 5 if inside else 99
        return Gpu(busy_percent=10.0 * s if inside else 0.0, used_bytes=used, total_bytes=80, joules=300 * s + 1000)

    rank = first_rank(gpu_launch(meter=meter))
    assert (rank.gpu_busy, rank.watts, rank.samples_per_s) == pytest.approx((0.5, 300, 8))
    assert (rank.peak_gpu_used_bytes, rank.gpu_total_bytes) == (STEPS + 5, 80)


def test_only_what_lies_between_two_heartbeats_is_counted_so_energy_needs_two() -> None:
    """Of 10 s they cover 6, in which the power was another one than outside."""
    joules = {-1.0: 0.0, 2.0: 5000.0, 8.0: 5600.0, 11.0: 9000.0}
    rank = first_rank(gpu_launch(beats=tuple(joules), meter=lambda _, s: Gpu(joules=joules[s])))
    assert rank.joules_a_step == pytest.approx(100)
    for beats in ((), (5.0,), (-1.0, 5.0, 11.0), (5.0, 5.0)):
        assert first_rank(gpu_launch(beats=beats)).joules_a_step is None


def test_a_counter_that_goes_back_or_is_not_there_tells_nothing() -> None:
    back = first_rank(gpu_launch(meter=lambda _, s: Gpu(joules=500 * s % 2100 + 1000, sm_mhz=1.0)))
    assert (back.joules_a_step, back.sm_mhz) == (None, 1.0)
    some = first_rank(gpu_launch(meter=lambda _, s: Gpu(joules=500 * s + 1000 if s % 3 else None)))
    assert some.joules_a_step == pytest.approx(500)
    rank = first_rank(gpu_launch(meter=lambda *_: Gpu(sm_mhz=1.0)))
    assert (rank.gpu_busy, rank.peak_gpu_used_bytes, rank.gpu_total_bytes) == (None,) * 3
    assert (rank.watts, rank.joules_a_step) == (None, None)


def test_energy_has_no_sum_if_one_gpu_tells_none() -> None:
    result = result_of(gpu_launch(meter=lambda rank, s: steady(rank, s) if rank else Gpu(sm_mhz=5.0)))
    assert [rank.joules_a_step for rank in result.ranks] == [None, pytest.approx(500)]
    assert result.joules_a_step is None


def test_readings_of_another_hosts_clock_are_found_in_its_measured_time() -> None:
    """Rank 1's clock is an hour ahead."""
    ahead_ms = 3_600_000
    launch = gpu_launch(meter=lambda rank, s: Gpu(sm_mhz=max(0.0, s), joules=s + 9))
    messages = [by_its_clock(message, ahead_ms) for message in launch]
    probes = [offset(1, at_ms=ms, offset_ms=ahead_ms) for ms in (2_100, 20_000)]
    rank = result_of([*messages[:3], *probes, *messages[3:]]).ranks[1]
    assert (rank.sm_mhz, rank.joules_a_step) == pytest.approx((5, 1))


def test_a_long_launch_keeps_the_readings_of_every_other_second_of_all_its_time() -> None:
    log, beats = LaunchData(), [beat / 50 for beat in range(-100, 650)]
    launch = gpu_launch(meter=lambda _, s: Gpu(sm_mhz=max(0.0, s), joules=100 * s + 1000), beats=beats)
    for message in launch:
        log.add(message)
        assert all(len(readings.points) <= MOST_ITEMS for readings in log.gpu_readings.values())
    rank = first_rank(launch)
    assert rank.joules_a_step == pytest.approx(100)
    assert rank.sm_mhz == pytest.approx(5, abs=2)


def test_on_the_cpu_there_is_none_of_it() -> None:
    result = result_of(journal())
    assert (result.nccl, result.tflops, result.mfu, result.joules_a_step) == (None,) * 4
    rank = result.ranks[0]
    assert (rank.tflops, rank.mfu, rank.sm_mhz, rank.held_back_part, rank.joules_a_step) == (None,) * 5
    assert (rank.samples_per_s, rank.gpu_busy, rank.peak_gpu_used_bytes, rank.watts) == (None,) * 4
    assert result_of(gpu_launch(nccl=None)).nccl is None


def test_a_whole_launch_comes_to_results_json(tmp_path: Path) -> None:
    memory = {"peak_gpu_bytes": 5, "peak_gpu_reserved_bytes": 7}
    reserved = [msgspec.structs.replace(each, **memory) if isinstance(each, Done) else each for each in gpu_launch()]
    preset = preset_of({"title": "?", "trial": [{"name": "a"}]})
    run = write_run(tmp_path, preset, reserved)
    [trial] = results_of(run, preset).trials  # read from its journal once more
    [written] = msgspec.json.decode((run.folder / "results.json").read_bytes())["trials"][0]["repeats"]
    assert msgspec.to_builtins(trial.repeats[0], str_keys=True) == written
    assert written["nccl"] == {"version": NCCL.version, "implementation": NCCL.implementation}
    rank = written["ranks"][1]
    assert (written["tflops"], written["mfu"], written["joules_a_step"]) == pytest.approx((RATE, RATE / PEAK, 1000))
    assert (rank["tflops"], rank["mfu"], rank["joules_a_step"]) == pytest.approx((RATE, RATE / PEAK, 500))
    assert (rank["peak_gpu_bytes"], rank["peak_gpu_reserved_bytes"]) == (5, 7)
    assert (rank["sm_mhz"], rank["held_back_part"]) == (1700, None)
