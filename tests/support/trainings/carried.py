"""A loop that makes its batches itself, and one with DDP and a loader. Both are copied, saved and compiled as they go,
in each place of a step.

Arguments: a folder for what is pickled, and what is asked (names of CELLS); or the folder and `load`. Prints what comes
of each question: the bytes where they are the same in each process, or what the copy does.
"""

import copy
import hashlib
import inspect
import io
import pickle
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path

import cloudpickle
import dill
import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

PICKLED = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps, "dill": dill.dumps}
INPUTS = torch.arange(8.0).reshape(2, 4) / 8
PLACES = "a step began", "forward was over", "backward was over", "a step was over"
WARM_UP = 4  # steps


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 1)))

    def forward(self, inputs):
        return self.layers(inputs)


class Failing(Net):
    def forward(self, inputs):
        raise ValueError(f"no inputs of {tuple(inputs.shape)}")


class Parallel(DistributedDataParallel):
    pass


class Descent(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter -= group["lr"] * parameter.grad


def double(module, inputs, outputs):
    return outputs * 2


def add_one(module, inputs):
    return (inputs[0] + 1,)


def with_hooks():
    net = Net()
    net.register_forward_hook(double)
    net.layers.register_forward_pre_hook(add_one)
    net.layers[0].register_forward_hook(double)
    return net


def bits(thing):
    """What a model, optimizer or loader does."""
    with torch.no_grad():
        match thing:
            case nn.Module():
                return thing(INPUTS).tolist()
            case torch.optim.Optimizer():
                [parameter, *_] = thing.param_groups[0]["params"]
                parameter.grad = torch.ones_like(parameter)
                thing.step()
                return parameter.sum().item()
            case DataLoader():
                return [inputs.sum().item() for inputs, *_ in thing]
        return repr(thing)


def outcome(ask, *arguments):
    """What a question comes to, or the error that it raises, and the warnings on the way. The question is asked where
    a backward has just ended."""
    torch.ones((), requires_grad=True).backward()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = ask(*arguments)
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, [str(warning.message) for warning in warned]


def pickled(thing, way, file):
    data = PICKLED[way](thing)
    file.write_bytes(data)
    return bits(pickle.loads(data))


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    return hashlib.sha256(file.getvalue()).hexdigest()


def copied(thing):
    made = copy.deepcopy(thing)
    return sorted(vars(made)), bits(made)


def copies(place, net, optimizer, folder):
    things = {"model": net, "optimizer": optimizer, "own optimizer": Descent(Net().parameters()), "loader": loader()}
    for name, thing in things.items():
        for way in PICKLED:
            file = folder / f"{type(net).__name__} | {place} | {way} {name}"
            yield f"{way} {name}", outcome(pickled, thing, way, file)
        yield f"torch.save {name}", outcome(saved, thing)
        yield f"deepcopy {name}", outcome(copied, thing)
        yield f"attributes {name}", (sorted(vars(thing)), [sorted(vars(kind)) for kind in type(thing).__mro__])


def trace_of_error():
    try:
        Failing()(INPUTS)
    except ValueError:
        return traceback.format_exc()


def profiled(net):
    with torch.profiler.profile(with_stack=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        net(INPUTS)
    return sorted(event.name for event in profile.events() if "nn.Module" in event.name)


def made(place, net, *_):
    """What is made of a model without torch.compile."""
    yield "call", (type(net).__call__ is nn.Module.__call__, inspect.getsource(nn.Module._call_impl) == SOURCE)
    yield "error", outcome(trace_of_error)
    yield "script", outcome(lambda: torch.jit.script(net).inlined_graph)
    yield "trace", outcome(lambda: torch.jit.trace(net, INPUTS).inlined_graph)
    yield "fx", outcome(lambda: torch.fx.symbolic_trace(net).code)
    yield "profiled", outcome(profiled, net)


def graphs_of(make, net, *, fullgraph=True):
    """What torch.compile makes in some calls, and what these come to."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph.code)
        return graph.forward

    made = make(net, backend=backend, fullgraph=fullgraph)
    return [made(INPUTS).sum().item() for _ in range(3)], graphs


def compile_function(net, **options):
    return torch.compile(lambda inputs: net(inputs), **options)


def compile_method(net, **options):
    net.compile(**options)
    return net


def compile_step(net, **options):
    optimizer = torch.optim.Adam(net.parameters())

    def step(inputs):
        loss = net(inputs).sum()
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step, **options)


def compile_optimizer(net, **options):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, **options)

    def train(inputs):
        loss = net(inputs).sum()
        loss.backward()
        step()
        return loss

    return train


def exported(net, strict):
    program = torch.export.export(net, (INPUTS,), strict=strict)
    return str(program.graph), [node.meta.get("stack_trace") for node in program.graph.nodes]


def compiled(place, net, *_):
    for make in (torch.compile, compile_function, compile_method):
        for kind in (Net, with_hooks):
            yield f"{make.__name__} {kind.__name__}", outcome(graphs_of, make, kind())
    for make in (compile_optimizer, compile_step):
        yield f"{make.__name__}", outcome(partial(graphs_of, fullgraph=False), make, Net())
    yield "compile_optimizer, whole", outcome(graphs_of, compile_optimizer, Net())
    for strict in (True, False):
        yield f"export, strict: {strict}", outcome(exported, net, strict)
        yield f"export with hooks, strict: {strict}", outcome(exported, with_hooks(), strict)
    yield "make_fx", outcome(lambda: torch.fx.experimental.proxy_tensor.make_fx(net)(INPUTS).code)


CELLS = {"copies": copies, "made": made, "compiled": compiled}


def loader():
    return DataLoader(TensorDataset(torch.arange(48.0).reshape(12, 4)), batch_size=4)


def train(net, batches, ask):
    """Ask in each place of a step, each in a step of its own."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    asked = iter([*[None] * WARM_UP, *PLACES])
    for [inputs] in batches:
        place = next(asked, None)
        for now in PLACES:
            match now:
                case "forward was over":
                    loss = net(inputs).square().mean()
                case "backward was over":
                    loss.backward()
                case "a step was over":
                    optimizer.step()
                    optimizer.zero_grad()
            if now == place:
                ask(place, net, optimizer)
    print("parameters", [parameter.tolist() for parameter in net.parameters()])


def train_both(folder, cells):
    def ask(place, net, optimizer):
        torch.manual_seed(1)
        for cell in cells:
            for name, result in CELLS[cell](place, net, optimizer, folder):
                print(type(net).__name__, place, name, result, sep=" | ", flush=True)

    torch.manual_seed(0)
    train(Net(), ([torch.randn(16, 4)] for _ in range(12)), ask)
    if "copies" in cells:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        train(Parallel(Net()), DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=8), ask)
        dist.destroy_process_group()


def loaded(file):
    return bits(pickle.loads(file.read_bytes()))


def load(folder):
    """Print what comes of the pickles where no module of ddptui's can be had."""
    sys.modules.update(dict.fromkeys(["ddptui", "workers", "ddptui_injected"]))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # which a DDP needs
    for file in sorted(folder.iterdir()):
        print(file.name, outcome(loaded, file), sep=" | ")
    dist.destroy_process_group()


SOURCE = inspect.getsource(nn.Module._call_impl)
if sys.argv[2:] == ["load"]:
    load(Path(sys.argv[1]))
else:
    train_both(Path(sys.argv[1]), sys.argv[2:])
