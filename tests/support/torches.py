"""What older torches lack, as seen in 2.8, 2.9, 2.11 and 2.13 on the CPU."""

import pytest
import torch

from workers.instruments import hooks

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
GLOO_REFUSES = frozenset({"all_to_all"} if VERSION < (2, 13) else ())  # of lists; all_to_all_single it takes
GLOO_ONLY_SUMS = frozenset({"reduce_scatter"} if VERSION < (2, 9) else ())  # whatever operator it is given
ALL_TO_ALL = pytest.mark.skipif("all_to_all" in GLOO_REFUSES, reason="this torch's gloo has no all_to_all")
COLLECTIVES_OF_META = pytest.mark.skipif(VERSION < (2, 11), reason="this torch has none of tensors without memory")
NAMED_THREADS = pytest.mark.skipif(VERSION < (2, 11), reason="this torch's gloo does not name its threads")
HOOKS = pytest.mark.skipif(not hooks.group_takes_hooks(), reason="this torch's groups take no hooks")
BOTH_WAYS = [pytest.param(True, marks=HOOKS, id="hooks"), pytest.param(False, id="wrapped")]
