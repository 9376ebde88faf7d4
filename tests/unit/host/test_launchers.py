"""Whatever torch's launchers read from the environment is removed for ranks, but for what is a user's to set."""

import re
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from ddptui.host.rank_place import without_launchers

USERS = {"CUDA_VISIBLE_DEVICES", "LOGLEVEL", "OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "USE_LIBUV"}
# environ["X"], environ.get("X"), getenv("X"); names in constants; and the variables of a rank
READ = re.compile(
    r'(?:environ(?:\.get)?|getenv)[\[(]\s*"(\w+)"|^([A-Z_]+) = \(?\s*"\2"|"([A-Z_]+)": (?:str|spec|worker)', re.M
)


def read_by_torch() -> set[str]:
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    distributed = Path(torch.origin).parent / "distributed"
    files = chain(*(distributed.glob(pattern) for pattern in ("run.py", "elastic/**/*.py", "launcher/*.py")))
    return {
        name for path in files for match in READ.findall(path.read_text(encoding="utf-8")) for name in match if name
    }


def test_no_variable_that_torchs_launchers_read_reaches_a_rank() -> None:
    names = read_by_torch() | {"PET_NNODES", "PET_NPROC_PER_NODE"}
    assert names >= {"RANK", "ROLE_NAME", "PYTHON_EXEC", "TORCHELASTIC_TIMER_FILE", *USERS}
    assert set(without_launchers(dict.fromkeys(names, "1"))) == USERS


def test_what_a_user_sets_stays() -> None:
    users = {"GLOO_SOCKET_IFNAME": "eth0", "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "NCCL_DEBUG": "INFO", "PETS": "cat"}
    assert without_launchers(users) == users
