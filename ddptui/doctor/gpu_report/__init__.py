"""`ddptui doctor --gpu-report`: what was expected of this machine's GPUs, what was observed, and the verdict.

A check is data (checks.py). What it runs is a preset (plans.py) or a probe (workers/doctor/gpu.py); how that is judged
is apart (verdicts.py, training.py, figures.py, primitives.py, probes.py), so that it can be tested without a GPU.
"""
