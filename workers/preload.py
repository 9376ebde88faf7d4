"""What a forkserver imports before it forks the first rank: what ranks need, once for all of them."""

import gc

import workers.train  # noqa: F401

gc.freeze()  # a collection in a rank would copy the pages that it shares; one at the end would take a second
