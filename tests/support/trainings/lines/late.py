"""A DDP training of a small transformer, in which one rank is late at one line. Arguments: KIND [STEPS] (200).

It knows nothing of ddptui. A comment `# slow: KIND` stands in each line in which the late rank spends the time: the
innermost line of this folder's code, as a sampler of stacks sees it. `# calls: KIND` stands in the line that calls it.
Rank 1 is late by about 20 ms a step, and by more where workers are, in:
    dataset          the dataset's `__getitem__`, which sleeps
    collate          `augment`, which the loader's collate function calls for each sample; it sleeps
    collate-busy     the same, in a loop of Python arithmetic
    comprehension    the same, called in a list comprehension
    holds-lock       the collate function, in one long call of C code that holds Python's lock
    library          a pure Python function of the standard library, called by the collate function
    tokenizer        a tokenizer in Python, in a second file: the texts of rank 1 are longer
    hook             a forward hook, in a loop of Python arithmetic
    deep             the module blocks.3.attn.proj, in one long call of C code that frees Python's lock
    item             the logging of metrics, by `.item()` of many values
    collect          `gc.collect()` in each step, with many objects alive
    automatic        collections that Python starts itself, as many objects are allocated in each step
    clip             gradient clipping in Python, between backward and the optimizer
    optimizer        the step of an optimizer derived from SGD, which sleeps
    function         the backward of an autograd function, which sleeps
    backward-hook    a backward hook of a module, in a loop of Python arithmetic
    two              two lines of data: two-large by 15 ms, two-small by 7 ms
    workers-busy     the loader's 2 workers, which compute too long for each batch: the line is the loop over the loader
    workers-sleep    the same workers, which sleep
Rank 0 is late every 50 steps, by 0.75 s, between steps:
    checkpoint       `save`, in a second file, which sleeps as if it uploaded the checkpoint
    validate         validation on the bare module, whose modules are all torch's
No rank is late:
    none             without any delay
    both             all ranks sleep at the same line, for as long
"""

import gc
import math
import os
import statistics
import sys
import time
from collections import deque

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see the other late.py
from checkpoint import save
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from words import LETTERS, VOCABULARY, tokenize

KIND = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WORKERS = 2 if KIND.startswith("workers") else 0
BATCH, LENGTH, WIDTH, DEPTH, CLASSES = 16, 32, 64, 1 if WORKERS else 6, 10  # with workers, a small one: cores are few
LATE_S, PAUSE_S, EVERY = 0.02, 0.75, 50
KEPT, ALLOCATED, LOGGED, LONG_TEXT = 300_000, 50_000, 6_000, 2_000


def is_late(kind, rank=1):
    return kind == KIND and rank == RANK


class Texts(Dataset):
    def __init__(self):
        self.texts = ["".join(LETTERS[(at * at + row) % len(LETTERS)] for at in range(100)) for row in range(97)]
        if is_late("tokenizer"):
            self.texts = [text * (LONG_TEXT // 100) for text in self.texts]

    def __len__(self):
        return STEPS * BATCH * WORLD

    def __getitem__(self, index):
        tokens = tokenize(f"{index} {self.texts[index % len(self.texts)]}")  # calls: tokenizer
        if is_late("dataset") or KIND == "both":
            time.sleep(LATE_S / BATCH)  # slow: dataset
        if is_late("workers-busy"):
            noise, until = index, time.process_time() + 5 * LATE_S / BATCH
            while time.process_time() < until:
                noise = (noise * 1_103_515_245 + 12_345) % 2_147_483_648
        if is_late("workers-sleep"):
            time.sleep(4 * LATE_S / BATCH)
        return tokens[:LENGTH] + [0] * (LENGTH - len(tokens)), index % CLASSES


def augment(tokens):
    """Returns a sample in which every seventh token is hidden."""
    if is_late("collate") or is_late("comprehension"):
        time.sleep(LATE_S / BATCH)  # slow: collate, comprehension
    if is_late("collate-busy"):
        noise, until = len(tokens), time.perf_counter() + LATE_S / BATCH
        while time.perf_counter() < until:  # slow: collate-busy
            noise = (noise * 1_103_515_245 + 12_345) % 2_147_483_648  # slow: collate-busy
    if is_late("two"):
        time.sleep(0.015 / BATCH)  # slow: two-large
    return [0 if at % 7 == 6 else token for at, token in enumerate(tokens)]


def collate(samples):
    if KIND == "comprehension":
        rows = [augment(tokens) for tokens, _ in samples]  # calls: comprehension
    else:
        rows = []
        for tokens, _ in samples:
            rows.append(augment(tokens))  # calls: collate, collate-busy, two-large
    if is_late("library"):
        statistics.pstdev([token / 7 for row in rows for token in row] * 70)  # slow: library
    if is_late("holds-lock"):
        sum(range(1_200_000))  # slow: holds-lock
    if is_late("two"):
        time.sleep(0.007)  # slow: two-small
    return torch.tensor(rows), torch.tensor([label for _, label in samples])


class Projection(nn.Linear):
    def __init__(self, number):
        super().__init__(WIDTH, WIDTH)
        self.number = number
        self.table = torch.randn(1100, 1100)  # no buffer: DDP would broadcast it in each step

    def forward(self, inputs):
        if self.number == 3 and is_late("deep"):
            torch.mm(self.table, self.table)  # slow: deep
        return super().forward(inputs)


class Attention(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), Projection(number)

    def forward(self, inputs):
        query, key, value = self.qkv(inputs).unflatten(-1, (3, 4, WIDTH // 4)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).flatten(-2))  # calls: deep


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.attn, self.before_attn, self.before_mlp = Attention(number), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, inputs):
        inputs = inputs + self.attn(self.before_attn(inputs))
        return inputs + self.mlp(self.before_mlp(inputs))


class Slow(torch.autograd.Function):
    """The identity, with a slow backward pass on the late rank."""

    @staticmethod
    def forward(context, inputs):
        return inputs.clone()

    @staticmethod
    def backward(context, gradients):
        if is_late("function"):
            time.sleep(LATE_S)  # slow: function
        return gradients


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(len(VOCABULARY), WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList([Block(number) for number in range(DEPTH)])

    def forward(self, inputs):
        hidden = self.embedding(inputs)
        for block in self.blocks:
            hidden = block(hidden)  # calls: hook
        return self.head(Slow.apply(hidden).mean(1))


def of_torch():
    """A network whose modules are all torch's."""
    between = [nn.Linear(16 * LENGTH, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU()]
    return nn.Sequential(nn.Embedding(len(VOCABULARY), 16), nn.Flatten(), *between, nn.Linear(1024, CLASSES))


def watch_activations(module, inputs, outputs):
    noise, until = outputs.numel(), time.perf_counter() + LATE_S
    while time.perf_counter() < until:  # slow: hook
        noise = (noise * 1_103_515_245 + 12_345) % 2_147_483_648  # slow: hook


def watch_gradients(module, inputs, outputs):
    noise, until = len(inputs), time.perf_counter() + LATE_S
    while time.perf_counter() < until:  # slow: backward-hook
        noise = (noise * 1_103_515_245 + 12_345) % 2_147_483_648  # slow: backward-hook


class Careful(torch.optim.SGD):
    def step(self, closure=None):
        if is_late("optimizer"):
            time.sleep(LATE_S)  # slow: optimizer
        return super().step(closure)


def clip(parameters, limit):
    """Scales gradients so that their norm is at most `limit`; here it always is. Returns the largest value."""
    total, largest = 0.0, 0.0
    for parameter in parameters:
        for value in parameter.grad.flatten().tolist():  # slow: clip
            total += value * value  # slow: clip
            largest = value if value > largest else largest  # slow: clip
    if math.sqrt(total) > limit:
        for parameter in parameters:
            parameter.grad *= limit / math.sqrt(total)
    return largest


def log_metrics(values):
    """Returns the mean and the largest of the values."""
    total, largest = 0.0, -math.inf
    for at in range(len(values)):  # slow: item
        total += values[at].item()  # slow: item
        largest = max(largest, values[at].item())  # slow: item
    return total / len(values), largest


def remember(step):
    """Returns records of a step that refer to each other."""
    records = [[step]]
    records.append(records)
    for at in range(ALLOCATED):  # slow: automatic
        records.append([records[-1], at])  # slow: automatic
    return records


def validate(net, inputs):
    """Validates for as long as a pass over a validation set takes."""
    until = time.perf_counter() + PAUSE_S
    net.eval()
    with torch.no_grad():
        while time.perf_counter() < until:
            net(inputs).argmax(1)  # slow: validate
    net.train()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Texts()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler, collate_fn=collate, num_workers=WORKERS)
    net = of_torch() if KIND == "validate" else Classifier()
    if is_late("hook"):
        net.blocks[2].register_forward_hook(watch_activations)
    if is_late("backward-hook"):
        net.blocks[2].register_full_backward_hook(watch_gradients)
    model = DistributedDataParallel(net)
    optimizer = Careful(model.parameters(), lr=0.01)
    gc.freeze()  # collections leave out what has been imported
    kept = deque([[]])
    while is_late("collect") and len(kept) < KEPT:
        kept.append([kept, kept[-1]])
    for step, (inputs, labels) in enumerate(loader, 1):  # slow: workers-busy, workers-sleep # calls: dataset
        loss = cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()  # calls: function, backward-hook
        if is_late("clip"):
            clip(list(net.blocks[:3].parameters()), 1e6)  # calls: clip
        optimizer.step()  # calls: optimizer
        if is_late("item"):
            log_metrics(net.blocks[0].mlp[0].weight.grad.flatten()[:LOGGED])  # calls: item
        if is_late("collect"):
            gc.collect()  # slow: collect
        if is_late("automatic"):
            while len(kept) >= 4:
                kept.popleft()
            kept.append(remember(step))  # calls: automatic
        if is_late("checkpoint", 0) and step % EVERY == 0:
            save(net.state_dict(), PAUSE_S)  # calls: checkpoint
        if is_late("validate", 0) and step % EVERY == 0:
            validate(net, inputs)  # calls: validate
    sys.stdout.write(f"rank {RANK} steps {step} loss {loss.item():.4f} kept {len(kept)}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    gc.collect()  # see plain.py
