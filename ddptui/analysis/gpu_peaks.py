"""The peak rates of GPUs by name and precision, in 10^12 floating-point operations per second (TFLOPS). Pure.

Rates are dense: figures that datasheets print with 2:4 sparsity are halved. float64 rates use tensor cores if the GPU
has them for float64. fp16 and bf16 rates accumulate in float32, as torch does; GeForce cards accumulate in float16
twice as fast.

Sources: NVIDIA's datasheets of V100, T4, A100, A10, A40, RTX A6000, L4, L40S, H100, H200, GH200 and HGX B200, and its
whitepapers on GA102, Ada and Hopper, in vendors' copies, and the tables of Lightning (fabric/utilities/throughput.py),
torchtitan (tools/utils.py) and Stas Bekman's "Machine Learning Engineering". A figure is left out if these disagree or
none has it: most figures of H100 NVL and RTX 6000 Ada, and float32 on B200 (75 or 80).
"""

import re

VOLTA_SXM2 = {"float64": 7.8, "float32": 15.7, "fp16": 125.0}
VOLTA_PCIE = {"float64": 7.0, "float32": 14.0, "fp16": 112.0}
A100 = {"float64": 19.5, "float32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0}
HOPPER_SXM = {"float64": 66.9, "float32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4}

# Patterns match the whole name without the maker's: longer names are other cards (A10G, RTX 3090 Ti, H200 NVL) or parts
# of a GPU with a lower peak (… MIG 1g.10gb).
PEAKS: dict[str, dict[str, float]] = {
    r"V100-SXM2-(16|32)GB": VOLTA_SXM2,
    r"V100-PCIE-(16|32)GB": VOLTA_PCIE,
    r"T4": {"float32": 8.1, "fp16": 65.0},
    r"A100-SXM4-(40|80)GB|A100-PCIE-40GB|A100 80GB PCIe": A100,
    r"A10": {"float32": 31.2, "tf32": 62.5, "fp16": 125.0, "bf16": 125.0},
    r"A40": {"float32": 37.4, "tf32": 74.8, "fp16": 149.7, "bf16": 149.7},
    r"RTX A6000": {"float32": 38.7, "tf32": 77.4, "fp16": 154.8, "bf16": 154.8},
    r"GeForce RTX 3090": {"float32": 35.6, "tf32": 35.6, "fp16": 71.0, "bf16": 71.0},
    r"GeForce RTX 4090": {"float32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2},
    r"RTX 6000 Ada Generation": {"float32": 91.1},
    r"L4": {"float32": 30.3, "tf32": 60.0, "fp16": 121.0, "bf16": 121.0},
    r"L40S": {"float32": 91.6, "tf32": 183.0, "fp16": 362.0, "bf16": 362.0},
    r"H100 80GB HBM3|H200|GH200 (120|480)GB|GH200 144G HBM3e": HOPPER_SXM,
    r"H100 PCIe": {"float64": 51.0, "float32": 51.0, "tf32": 378.0, "fp16": 756.0, "bf16": 756.0},
    r"H100 NVL": {"fp16": 835.0, "bf16": 835.0},
    r"B200": {"tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0},
}
MAKERS = re.compile(r"^(NVIDIA |Tesla )+")  # older drivers omit NVIDIA, or add Tesla


def peak_tflops(name: str, precision: str) -> float | None:
    """The peak rate of a GPU in TFLOPS; None: unknown. name: as CUDA reports it; precision: as in wire.Ready."""
    model = MAKERS.sub("", name)
    return next((peaks.get(precision) for pattern, peaks in PEAKS.items() if re.fullmatch(pattern, model)), None)
