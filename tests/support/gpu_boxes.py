"""Machines with GPUs, as their links are known from data sheets and from dumps of NCCL and nvidia-smi."""

from collections.abc import Mapping

from ddptui.host.gpu_links import GpuLinks, Links, NvLinks, Pcie

# The links between a DGX-1's V100s, by number: NCCL's dump in github.com/NVIDIA/nccl/issues/671, and the same for the
# second half.
CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 1,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 1,
    (0, 4): 2, (1, 5): 2, (2, 6): 2, (3, 7): 2,
}  # fmt: skip


def address(gpu: int) -> str:
    return f"0000:{16 + gpu:02x}:00.0"


def box(gpus: int, pcie: Pcie, nvlinks: Mapping[int, NvLinks] = {}, level: str = "SYS") -> Links:
    """So many GPUs, the second half of them on another NUMA node."""
    made = [
        GpuLinks(address(gpu), int(gpu >= gpus / 2), pcie, pcie._replace(generation=1), nvlinks.get(gpu, NvLinks()))
        for gpu in range(gpus)
    ]
    return Links(tuple(made), {(a, b): level for b in range(gpus) for a in range(b)})


def direct(links: Mapping[tuple[int, int], int], gb_s: float) -> dict[int, NvLinks]:
    """The NVLinks of each GPU, without switches."""
    ends: dict[int, dict[str, int]] = {}
    for (a, b), number in links.items():
        ends.setdefault(a, {})[address(b)] = number
        ends.setdefault(b, {})[address(a)] = number
    return {gpu: NvLinks(0, to, gb_s) for gpu, to in ends.items()}


def dgx_h100() -> Links:
    return box(8, Pcie(5, 16), dict.fromkeys(range(8), NvLinks(18, {}, 25.0, "4.0")))


def dgx_1() -> Links:
    return box(8, Pcie(3, 16), direct(CUBE_MESH, 25.0))


def bridged_3090s(gpus: int = 2) -> Links:
    """Two of them with a bridge of four links each."""
    return box(gpus, Pcie(4, 16), direct({(gpu, gpu + 1): 4 for gpu in range(0, gpus, 2)}, 14.062), "PHB")


def pcie_box() -> Links:
    return box(2, Pcie(4, 16), level="PHB")
