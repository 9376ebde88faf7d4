"""What the columns of a rank say."""

import msgspec
import pytest

from ddptui.analysis.results import RankResult
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.tables import fill, telling

RANK = RankResult(rank=3, host="a", pid=7, device="cpu", bottleneck_fired=0, bottleneck_s=0.0)


def cells(**changes: object) -> dict[str, str]:
    rank = RankResult(**{**{field: getattr(RANK, field) for field in RANK.__struct_fields__}, **changes})
    return {column.header: column.cell(rank) for column in RANK_COLUMNS}


def test_a_rank_of_which_nothing_is_known_says_who_it_is() -> None:
    shown = cells()
    assert (shown["rank"], shown["host"], shown["pid"], shown["device"]) == ("3", "a", "7", "cpu")
    assert {shown[header] for header in shown.keys() - {"rank", "host", "pid", "device"}} == {"–"}


def test_the_rank_that_was_waited_for_longest_is_named() -> None:
    assert cells(waited_for_s={0: 0.2, 1: 1.5, 2: 0.3})["waits for"] == "rank 1: 1.5 s"


def test_the_memory_of_gpus_has_a_column_where_a_rank_has_one() -> None:
    on_gpu = msgspec.structs.replace(RANK, peak_gpu_bytes=3 * 2**29)
    headers = [[column.header for column in telling(fill(RANK_COLUMNS, ranks))] for ranks in ([RANK], [RANK, on_gpu])]
    assert headers[0] == [header for header in headers[1] if header != "gpu mem."]
    assert len(headers[1]) == len(headers[0]) + 1
    assert cells(peak_gpu_bytes=3 * 2**29)["gpu mem."] == "1.50 GB"


def test_what_a_gpu_did_has_columns_where_a_rank_tells_of_it() -> None:
    shown = cells(
        peak_gpu_reserved_bytes=2**31,
        samples_per_s=1985.2,
        tflops=312.44,
        mfu=0.3159,
        gpu_busy=0.966,
        peak_gpu_used_bytes=5 * 2**30,
        gpu_total_bytes=80 * 2**30,
        watts=251.44,
        sm_mhz=1409.6,
        held_back_part=0.124,
        joules_a_step=8.256,
    )
    figures = {
        "reserved": "2.00 GB",
        "gpu %": "97",
        "gpu used": "5.0/80 GB",
        "W": "251",
        "samples/s": "1985",
        "TFLOP/s": "312",
        "MFU %": "31.6",
        "MHz": "▼1410",
        "J/step": "8.26",
    }
    assert shown.items() >= figures.items()
    assert {header: text for header, text in cells().items() if header in figures} == dict.fromkeys(figures, "–")


def test_memory_of_a_gpu_whose_size_is_not_known_is_told_alone() -> None:
    assert cells(peak_gpu_used_bytes=3 * 2**29)["gpu used"] == "1.50 GB"


def test_delays_are_counted_and_summed() -> None:
    assert cells(bottleneck_fired=20, bottleneck_s=0.2)["delays"] == "200 ms, 20×"


@pytest.mark.parametrize(
    ("sent", "shown"), [(None, "–"), (0, "0 B"), (999, "999 B"), (15_480_000, "14.8 MB"), (10**18, "909495 TB")]
)
def test_bytes_have_a_unit(sent: int | None, shown: str) -> None:
    assert cells(bytes=sent)["sent"] == shown
