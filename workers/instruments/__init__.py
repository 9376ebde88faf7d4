"""Instruments that observe a training loop: its phases, collectives, clock and position; and report to the console.

A loop makes a `Reporter`, a `Clock`, a `Tap` and a `Progress`, times its phases with a `PhaseTimer`, and passes a
`StepRecord` to its progress after each step. Except delays.py, nothing here depends on trials or strategies.
"""
