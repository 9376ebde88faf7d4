"""Watch a training loop from outside: its phases, its collectives, its clock and position, and the way to the console.

A loop makes a `Reporter`, a `Clock`, a `Tap` and a `Progress`, times its phases with a `PhaseTimer`, and hands a
`StepRecord` to its progress after each step. Nothing in this package knows of trials, strategies or delays.
"""
