"""The numbers that primitives are checked with: what is lost, misplaced or added up wrongly must show."""

import pytest
import torch

from ddptui.config.primitives import REDUCE_OPS, ReduceOpName
from workers.primitives.numbers import LARGEST, PERIOD, Readable, Scrambled, reduce, wrong_elements


def test_the_tens_say_whose_number_it_is() -> None:
    assert Readable(8).of(3, 4).tolist() == [31, 32, 33, 34]
    assert Readable(12).of(3, 12).tolist() == list(range(301, 313))


def test_what_is_right_has_no_wrong_element() -> None:
    wanted = Scrambled(seed=3).of(1, 100_000)
    assert wrong_elements(wanted.float(), wanted, ranks=4) == 0
    assert wanted.min() >= 1
    assert wanted.max() <= LARGEST


@pytest.mark.parametrize("spoil", [torch.nan, torch.inf, 0.0, 0.5])
def test_a_single_element_that_is_wrong_is_counted(spoil: float) -> None:
    wanted = Scrambled(seed=3).of(1, 1000)
    found = wanted.float()
    found[17] = spoil
    assert wrong_elements(found, wanted, ranks=4) == 1


@pytest.mark.parametrize("block", [1, 256, 1024, 4096, 65_536])
def test_blocks_in_the_wrong_place_are_seen(block: int) -> None:
    """What a sum over the tensor, or equal numbers in every block, would hide."""
    wanted = Scrambled(seed=0).of(0, 4 * 65_536)
    found = wanted.clone()
    found[:block], found[block : 2 * block] = wanted[block : 2 * block], wanted[:block]
    assert wrong_elements(found, wanted, ranks=2) > block


def test_another_ranks_numbers_are_others_and_another_seeds_too() -> None:
    numbers = Scrambled(seed=0)
    for other in (numbers.of(1, 1000), Scrambled(seed=1).of(0, 1000)):
        assert wrong_elements(other, numbers.of(0, 1000), ranks=2) > 900


@pytest.mark.parametrize("op", REDUCE_OPS)
def test_what_recurs_is_what_adding_up_everything_comes_to(op: ReduceOpName) -> None:
    count, ranks = 2 * PERIOD + 5, 4
    numbers = Scrambled(7, op)
    everything = reduce(op, torch.stack([numbers.of(rank, count) for rank in range(ranks)]))
    assert torch.equal(numbers.reduced(op, ranks, count), everything)


@pytest.mark.parametrize("ranks", [2, 4096])
def test_sums_and_products_are_exact_in_float32(ranks: int) -> None:
    assert ranks * LARGEST < 2**24
    numbers = Scrambled(0, "product")
    assert set(numbers.of(0, 1000).tolist()) == {2.0, 4.0}


def test_a_mean_may_lose_its_last_bits_and_no_more() -> None:
    wanted = Scrambled(seed=5).reduced("avg", 3, 1000)
    by_division = Scrambled(seed=5).reduced("sum", 3, 1000).float() / 3
    by_reciprocal = Scrambled(seed=5).reduced("sum", 3, 1000).float() * torch.tensor(1 / 3)
    assert wrong_elements(by_division, wanted, ranks=3) == wrong_elements(by_reciprocal, wanted, ranks=3) == 0
    assert wrong_elements(by_division * 1.00001, wanted, ranks=3) == 1000
