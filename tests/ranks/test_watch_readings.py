"""What a rank reads for the checks: exact, in parts, at the same steps on all ranks, and without a trace."""

import gc
import weakref
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.support.failing import failing
from workers.instruments.clock import Clock
from workers.watch import checks
from workers.watch.checks import Checks, Reading, Stepped, flat, is_mean, next_due, sum_of

CPU = torch.device("cpu")


def sum_of_bytes(tensor: Tensor) -> int:
    """The sum that `sum_of` promises, computed in Python."""
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    size = tensor.element_size()
    whole = len(data) // 8 * 8
    parts = [data[at : at + 8] for at in range(0, whole, 8)]
    parts += [data[at : at + size] for at in range(whole, len(data), size)]
    return sum(int.from_bytes(part, "little", signed=True) for part in parts) % 2**64


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("length", [1, 1001])
def test_a_sum_covers_every_byte(dtype: torch.dtype, length: int) -> None:
    numbers = (torch.randn(length, generator=torch.Generator().manual_seed(length)) * 100).to(dtype)
    before = sum_of(numbers).item() % 2**64
    assert before == sum_of_bytes(numbers)
    numbers[length // 2] += 1
    assert sum_of(numbers).item() % 2**64 != before


def test_a_large_model_is_summed_in_parts_that_cover_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_BYTES", 400)
    summed: list[Tensor] = []
    monkeypatch.setattr(checks, "sum_of", lambda numbers: (summed.append(numbers), numbers.sum().long())[1])
    tensors = [torch.randn(5), torch.randn(10, 25), torch.randn(40)]
    known, training = Stepped(0, nn.Module()), Training()
    candidates = [("parameters", name, tensor) for name, tensor in zip("abc", tensors, strict=True)]
    labels = []
    for _ in range(3):
        labels.append([name for _, name in training.checks._sums(known, candidates)[0]])
    assert labels == [["a", "b (0)"], ["b (95)"], ["b (195)", "c"]]
    assert torch.equal(torch.cat(summed), torch.cat([tensor.reshape(-1) for tensor in tensors]))
    assert training.checks._sums(known, candidates)[0][0] == ("parameters", "a")


@pytest.mark.parametrize("backwards_a_step", [1, 3])
def test_readings_are_dense_at_first_and_then_some_for_each_doubling(backwards_a_step: int) -> None:
    due, read = 0, []
    for signs in range(backwards_a_step, 60_001, backwards_a_step):
        if signs >= due:
            read.append(signs)
            due = next_due(signs)
    assert read[:4] == [step * backwards_a_step for step in (1, 2, 3, 4)]
    assert len(read) <= 40
    assert all(after <= 2 * before + backwards_a_step for before, after in pairwise(read))
    assert all(after <= 1.25 * before + 1 + backwards_a_step for before, after in pairwise(read) if after <= 64)


class Training:
    """A small model with its optimizer, read as the observer would."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.checks = Checks(Clock(), CPU, signs=0)
        self.checks.learn(self.net)

    def backward(self) -> None:
        loss = self.net(torch.randn(16, 8)).square().mean()
        self.checks.backward_begins(loss, 0)
        loss.backward()
        self.checks.count()
        self.checks.backward_ends(0, is_outermost=True)

    def step(self, average: Any = lambda gradient: None) -> dict[str, Any] | None:
        self.optimizer.zero_grad()
        self.backward()
        for parameter in self.net.parameters():
            average(parameter.grad)
        reading = self.checks.optimizer_begins(self.optimizer)
        self.optimizer.step()
        late = self.checks.optimizer_ends(self.optimizer)
        assert late is None
        return read(reading)


def read(reading: Reading | None) -> dict[str, Any] | None:
    return None if reading is None else reading.read()


def test_parameters_buffers_gradients_and_settings_are_read_by_name() -> None:
    facts = Training().step()
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    assert [*facts["parameters"]] == [*facts["gradients"]] == names
    assert [*facts["buffers"]] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    expected = {"optimizer": "SGD", "learning rate": "0.1", "weight decay": "0", "parameters": "54"}
    assert expected.items() <= facts["settings"].items()
    assert facts["settings"]["modules in training mode"] == "5 of 5"


def test_gradients_are_sampled_before_they_are_averaged_and_after() -> None:
    training = Training()
    training.step()
    facts = training.step(lambda gradient: gradient.mul_(0.5))
    own, left = (torch.tensor(facts[name]).view(torch.float64) for name in ("own", "left"))
    assert len(own) > 20
    assert torch.equal(own / 2, left)
    assert facts["mean_loss"]


def test_gradients_that_an_optimizers_closure_computes_are_read_after_its_step() -> None:
    training = Training()
    readings = []
    for _ in range(2):
        readings.append(training.checks.optimizer_begins(training.optimizer))
        training.backward()
        training.optimizer.step()
        readings.append(training.checks.optimizer_ends(training.optimizer))
    first, then, *_ = map(read, readings)
    assert "gradients" not in first
    assert "parameters" not in then
    assert len(then["gradients"]) == 6


def test_the_training_keeps_its_bits_its_random_numbers_and_its_memory() -> None:
    plain, watched = Training(), Training()
    for _ in range(3):
        state = torch.get_rng_state()
        watched.step()
        seen = torch.get_rng_state()
        torch.set_rng_state(state)
        plain.optimizer.zero_grad()
        plain.net(torch.randn(16, 8)).square().mean().backward()
        plain.optimizer.step()
        assert torch.equal(torch.get_rng_state(), seen)
    assert all(torch.equal(*pair) for pair in zip(plain.net.parameters(), watched.net.parameters(), strict=True))
    parameter = weakref.ref(next(watched.net.parameters()))
    del watched.net, watched.optimizer
    gc.collect()
    assert parameter() is None
    assert watched.checks.at_end() == []


def test_each_of_two_optimizers_is_read_and_one_that_steps_no_more_is_not_waited_for() -> None:
    training = Training()
    other = torch.optim.Adam(training.net.parameters())
    read_of: list[int] = []
    for step in range(300):
        for number, optimizer in enumerate((training.optimizer, other)):
            training.checks.count()
            if training.checks.is_due and (number == 0 or step < 100):
                reading = training.checks.optimizer_begins(optimizer)
                training.checks.optimizer_ends(optimizer)
                read_of += [number] * (reading is not None)
    assert read_of.count(1) > 15
    assert abs(read_of[:30].count(0) - 15) <= 1
    assert training.checks._due > 500


def test_ranks_that_are_observed_later_read_at_the_same_steps() -> None:
    early, late = Training(), Training()
    steps = [early.step() is not None for _ in range(40)]
    late.checks = Checks(Clock(), CPU, signs=13)
    late.checks.learn(late.net)
    later = [late.step() is not None for _ in range(27)]
    assert later[1:] == steps[14:]


def test_of_batches_rows_are_read_and_what_a_sampler_says_of_its_order() -> None:
    data = TensorDataset(torch.arange(64.0).reshape(32, 2), torch.zeros(32))
    sampler = DistributedSampler(data, num_replicas=2, rank=0)
    loader = DataLoader(data, 4, sampler=sampler)
    watched = Training().checks
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        iterator = iter(loader)
        for batch in iterator:
            watched.batch_is_fetched(batch, iterator)
            seen.append(read(watched.backward_begins(None, 0)))
    assert None not in seen
    batches = [facts["batch"] for facts in seen if facts is not None]
    assert [(each["passes"], each["batch"], each["epoch"]) for each in batches] == [
        (passes, batch, passes - 1) for passes in (1, 2) for batch in (1, 2, 3, 4)
    ]
    assert {each["sampler"] for each in batches} == {"DistributedSampler"}
    rows = [tuple(facts["rows"]) for facts in seen if facts is not None]
    assert len({row for each in rows[:4] for row in each}) == 16
    assert rows[:4] != rows[4:]


def test_an_error_ends_the_checks_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    monkeypatch.setattr(checks, "sum_of", failing(RuntimeError("an unusual tensor")))
    assert training.step() is None
    monkeypatch.undo()
    assert training.step() is None
    assert training.checks.has_failed


def test_nothing_is_read_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    monkeypatch.setattr(Clock, "is_capturing", lambda _: True)
    assert training.step() is None
    monkeypatch.undo()
    assert training.step() is not None


def test_only_the_mean_of_losses_is_taken_for_one() -> None:
    outputs = torch.randn(4, 3, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 0])
    mean = nn.functional.cross_entropy(outputs, labels)
    means = [mean, [mean], mean / 1, outputs.mean()]
    others = [mean / 2, mean * 3, nn.functional.cross_entropy(outputs, labels, reduction="sum"), outputs.sum(), None]
    assert [is_mean(loss) for loss in means + others] == [True] * len(means) + [False] * len(others)


def test_a_tensor_with_gaps_is_left_out_and_one_in_another_order_is_not() -> None:
    assert flat(torch.zeros(4, 6)[:, :3]) is None
    numbers = flat(torch.arange(6).reshape(2, 3).t())
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_batch_that_backward_does_not_use_is_not_read() -> None:
    watched = Training().checks
    loader = DataLoader(TensorDataset(torch.randn(8, 2)), 4)
    for iterator in (iter(loader), iter(loader)):
        watched.batch_is_fetched(next(iterator), iterator)
    facts = read(watched.backward_begins(None, 0))
    assert facts["batch"]["passes"] == 2
    assert watched.backward_begins(None, 0) is None
