"""Remedies for a torch that lacks something: the commands that several messages name."""

AGAIN = "pip install --force-reinstall torch torchvision"
WITH_CUDA = f"`{AGAIN}` (on Linux: with CUDA)"
OLDER = "update the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
WHO_HAS_MPI = "only a torch that was built from source where an MPI library is has it"
