"""A parser that knows --local_rank alone, and so not --local-rank, which torch.distributed.launch passes."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.parse_args()  # mark: parse
