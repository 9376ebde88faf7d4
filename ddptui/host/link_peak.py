"""The bandwidth of what connects GPUs, and which of them are connected by what. Pure.

The peak is what busbw is compared to: nccl-tests (doc/PERFORMANCE.md) defines busbw so that it compares to the
bandwidth of the hardware in one direction. A GPU sends over all of its NVLinks that lead to the others, because NCCL
lays as many rings through a group as its links allow: it counts the links of each pair, and takes all that lead to
NVSwitches as one link to all others (src/graph/topo.cc). So the GPU with the fewest such links bounds the group. Where
NVLink does not lead from each GPU to each other, be it through further ones, every ring crosses PCIe, and the slowest
PCIe link is the bound.

In a DGX-1 with eight V100s, where not every pair is connected, the bound is thus a GPU's six links: 150 GB/s. The links
of its weakest pair would give 25 GB/s, or none, though rings that avoid this pair use all six.

Bandwidths are in GB/s of 1e9 bytes, in one direction, as data sheets give them: without the overhead of packets.
"""

from collections.abc import Sequence
from itertools import combinations

from ddptui.host.gpu_links import GpuLinks, Links, Pcie
from ddptui.text.words import count

# A lane's transfers a second, in 1e9, by PCIe's generation, and how many of the bits are data: 8b/10b, then 128b/130b
# (PCI Express Base Specification 3.0); from 6.0 on, 242 of the 256 bytes of a FLIT, the others being CRC and FEC.
LANE_GT_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
DATA_PART = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
MOST_LISTED = 16  # GPUs whose pairs are named one by one


def pcie_gb_s(pcie: Pcie) -> float | None:
    """The bandwidth of a PCIe link. None: a generation that this program does not know."""
    transfers = LANE_GT_S.get(pcie.generation)
    return transfers * DATA_PART[pcie.generation] / 8 * pcie.width if transfers else None


def peak_gb_s(group: Sequence[GpuLinks]) -> float | None:
    """The most that each GPU of a group can send to the others. None: it is not known, or the GPU is alone."""
    if len(group) < 2:
        return None
    bounds = [_nvlinks_gb_s(gpu, group) if is_connected(group) else gpu.pcie and pcie_gb_s(gpu.pcie) for gpu in group]
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(group) else None


def peaks_gb_s(gpus: Sequence[GpuLinks]) -> dict[str, float | None]:
    """The peak by how many of these GPUs, from the first on, communicate: from this number on, up to the next one in
    the table. Empty: it is known for none. Its keys are those of JSON."""
    peaks: dict[str, float | None] = {}
    last = None
    for number in range(2, len(gpus) + 1):
        peak = peak_gb_s(gpus[:number])
        if peak != last:
            peaks[str(number)] = peak and round(peak, 3)
            last = peak
    return peaks


def is_connected(group: Sequence[GpuLinks]) -> bool:
    """Whether NVLinks lead from each GPU to each other, be it through others of the group."""
    reached, waiting = {0}, [0]
    while waiting:
        here = group[waiting.pop()]
        found = {place for place, gpu in enumerate(group) if nvlinks_between(here, gpu)} - reached
        reached |= found
        waiting += found
    return len(reached) == len(group)


def nvlinks_between(a: GpuLinks, b: GpuLinks) -> int:
    """How many NVLinks connect two GPUs; through NVSwitches, as many as each has, as `nvidia-smi topo -m` counts."""
    direct = a.nvlinks.to_gpus.get(b.bus_id or "", 0)
    return direct + min(a.nvlinks.to_switches, b.nvlinks.to_switches)


def connections(links: Links, numbers: Sequence[int]) -> list[str]:
    """What connects the GPUs of these numbers, a line a kind: NV18 between all 8; or NV2: 0-3, 1-2. NV# is so many
    NVLinks, and the others are the names of `nvidia-smi topo -m`. Empty: NVML does not say."""
    pairs: dict[str, list[str]] = {}
    for a, b in combinations(numbers, 2):
        if kind := between(links, a, b):
            pairs.setdefault(kind, []).append(f"{a}-{b}")
    every = len(numbers) * (len(numbers) - 1) // 2
    if len(numbers) > 2 and [*map(len, pairs.values())] == [every]:
        return [f"{kind} between all {len(numbers)}" for kind in pairs]
    return [f"{kind}: {_named(which, len(numbers))}" for kind, which in pairs.items()]


def between(links: Links, a: int, b: int) -> str:
    """What connects two GPUs, by number: NV4, or PIX, PXB, PHB, NODE or SYS. Empty: NVML does not say."""
    nvlinks = nvlinks_between(links.gpus[a], links.gpus[b])
    return f"NV{nvlinks}" if nvlinks else links.levels.get((min(a, b), max(a, b)), "")


def numa_nodes(links: Links, numbers: Sequence[int]) -> str:
    """As in "NUMA node 0: 0, 1; node 1: 2, 3"; "NUMA node 0" where all are on one. Empty: unknown of some."""
    by_node: dict[int, list[str]] = {}
    for number in numbers:
        node = links.gpus[number].numa_node
        if node is None:
            return ""
        by_node.setdefault(node, []).append(str(number))
    if len(by_node) == 1:
        return f"NUMA node {next(iter(by_node))}"
    return "NUMA " + "; ".join(f"node {node}: {', '.join(which)}" for node, which in sorted(by_node.items()))


def _nvlinks_gb_s(gpu: GpuLinks, group: Sequence[GpuLinks]) -> float | None:
    """All NVLinks of a GPU that lead to others of the group."""
    links, others = gpu.nvlinks, [other for other in group if other is not gpu]
    direct = sum(links.to_gpus.get(other.bus_id or "", 0) for other in others)
    return None if links.gb_s is None else (links.to_switches + direct) * links.gb_s


def _named(pairs: Sequence[str], gpus: int) -> str:
    return ", ".join(pairs) if gpus <= MOST_LISTED else count(len(pairs), "pair")
