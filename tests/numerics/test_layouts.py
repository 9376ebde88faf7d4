"""Tensors whose strides are not those of their indices: they keep them in a buffer, and become vectors and back."""

import pytest
import torch
from torch import Tensor, nn

from workers.aggregate.bucketed import split_by_size
from workers.aggregate.buffer import group_by_dtype, in_memory_order, move_into_buffer


def tensors() -> list[Tensor]:
    torch.manual_seed(0)
    return [
        torch.randn(4, 3, 5, 2).to(memory_format=torch.channels_last),
        torch.randn(4, 3, 1, 1).to(memory_format=torch.channels_last),  # of which torch says that it is contiguous, too
        torch.randn(4, 1, 3, 3).to(memory_format=torch.channels_last),
        torch.randn(4, 3).t(),
        torch.randn(7),
        torch.tensor(2.0),
    ]


def test_in_a_buffer_they_keep_their_numbers_and_their_strides() -> None:
    """A fused optimizer goes through gradients and parameters as they lie in memory: with other strides for one of
    them it takes another gradient for each number, and does not say so."""
    laid, before = tensors(), tensors()
    buffer = move_into_buffer(laid, divisor=4)
    for tensor, old in zip(laid, before, strict=True):
        assert torch.equal(tensor, old / 4)
        assert tensor.stride() == old.stride()
        assert tensor.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()


def test_as_a_vector_each_shares_its_memory() -> None:
    for tensor in tensors():
        vector = in_memory_order(tensor)
        assert vector.shape == (tensor.numel(),)
        vector.fill_(3)
        assert (tensor == 3).all()


def test_a_vector_wants_all_of_the_memory() -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        in_memory_order(torch.randn(4, 6)[:, :3])


def test_a_buffer_takes_tensors_in_and_leaves_alone_what_lies_there() -> None:
    tensors = [torch.arange(3.0), torch.arange(4.0).view(2, 2), torch.tensor(7.0)]
    buffer = move_into_buffer(tensors)
    assert buffer.tolist() == [0, 1, 2, 0, 1, 2, 3, 7]
    buffer *= 2
    assert tensors[1].tolist() == [[0, 2], [4, 6]]
    assert move_into_buffer(tensors, buffer) is buffer
    assert buffer.tolist() == [0, 2, 4, 0, 2, 4, 6, 14]
    fresh = [torch.zeros(8)]
    assert move_into_buffer(fresh, buffer) is buffer
    assert fresh[0].data_ptr() == buffer.data_ptr()
    assert not buffer.any()
    assert move_into_buffer([torch.ones(2)], buffer) is not buffer


def test_dtypes_are_told_apart_in_order() -> None:
    tensors = [torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.ones(2)]
    assert [[len(tensor) for tensor in alike] for alike in group_by_dtype(tensors)] == [[1, 2], [1]]


def test_a_bucket_is_full_when_it_has_crossed_its_size() -> None:
    sizes = [3, 3, 3, 10, 1]
    parameters = [nn.Parameter(torch.zeros(size)) for size in sizes]
    assert [[len(one) for one in bucket] for bucket in split_by_size(parameters, 4 * 4)] == [[3, 3], [3, 10], [1]]
    assert len(split_by_size(parameters, 1)) == 5
    assert len(split_by_size(parameters, 1e9)) == 1
    parameters[2] = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    assert [[len(one) for one in bucket] for bucket in split_by_size(parameters, 1e9)] == [[3, 3], [3], [10, 1]]
