"""Slurm's lists of nodes and counts, read without Slurm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.host.place.place import PlaceError
from ddptui.host.place.slurm_lists import counts, first_node


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("n1", "n1"),
        ("a[1-3,07-09,x]b,c", "a1b"),
        ("a[07-09,1-3]b,c", "a07b"),
        ("a[x,1-3]b,c", "axb"),
        ("n[08-11]", "n08"),
        ("r[0-1]n[0-1]", "r0n0"),
        ("gpu-a.site[1,3],login-2", "gpu-a.site1"),
        ("n[1-999999999],m[0-60000]", "n1"),
    ],
)
def test_the_first_name_is_spelt_out(text: str, first: str) -> None:
    assert first_node(text) == first


@pytest.mark.parametrize(
    "text",
    ["", ",", "n1,", ",n1", "n1,,n2", "n[1-2", "n1-2]", "n[]", "n[1,]", "n[2-1]", "n[1-]", "n[a-b]", "n[[1]]", "n 1",
     "n,m[2-1]", "n[1-2]\n"],
)  # fmt: skip
def test_what_is_no_list_is_refused_at_once(text: str) -> None:
    with pytest.raises(PlaceError, match="not a list of nodes in Slurm"):
        first_node(text)


@given(st.lists(st.tuples(st.sampled_from(["n", "gpu-", "a.b"]), st.integers(0, 200), st.integers(0, 9)), min_size=1))
def test_a_list_that_was_folded_begins_with_its_first_node(ranges: list[tuple[str, int, int]]) -> None:
    folded = ",".join(f"{prefix}[{first:04}-{first + more:04}]" for prefix, first, more in ranges)
    prefix, first, _ = ranges[0]
    assert first_node(folded) == f"{prefix}{first:04}"


@pytest.mark.parametrize("text", ["", "2(x3", "(x3)", "2(3)", "2,", "a", "-1", "2(x999999)", "1 "])
def test_what_are_no_counts_is_refused(text: str) -> None:
    with pytest.raises(PlaceError, match="not a list of task counts in Slurm"):
        counts(text)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 20)), min_size=1))
def test_counts_that_were_folded_unfold_again(runs: list[tuple[int, int]]) -> None:
    folded = ",".join(f"{each}(x{times})" if times > 1 else str(each) for each, times in runs)
    assert counts(folded) == [each for each, times in runs for _ in range(times)]
