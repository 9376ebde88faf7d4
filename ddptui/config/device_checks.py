"""Refuses devices, backends and precisions that do not go together in a trial, whatever the machine."""

from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial, TrialError

NO_IMAGES = ("mlp", "linears")  # models that convolve nothing
# With tensors on GPUs; gloo copies those of collectives to the host, also of a reduce_scatter, which it makes of
# all_reduces from torch 2.8 on. (Before, it has none, on the CPU neither.)
NOT_BY_GLOO = ("send_recv", "isend_irecv")
NO_SENDING = "gloo sends and receives nothing that lies on a GPU"


def check_devices(trial: Trial) -> None:
    """Refuse what can never run, on any machine. Raises TrialError."""
    _check_backend(trial)
    if trial.share_gpu:
        _check_sharing(trial)
    _check_precision(trial)
    if trial.pin_memory and trial.device == "cpu":
        raise TrialError("pin_memory", "is for the way to a GPU: with device = 'cpu' it means nothing")
    is_ddp = trial.strategy is not None and STRATEGIES[trial.strategy].is_ddp
    if trial.compile and is_ddp and trial.bucket_mb is not None and trial.bucket_mb < 1:
        why = f"{trial.bucket_mb:g} MB is too small for torch to compile a DDP with, whose first bucket has 1 MB"
        raise TrialError("bucket_mb", f"{why}: take 1 or more, or compile = false")
    if trial.compile and trial.gpus_per_rank > 1:
        raise TrialError("compile", "with gpus_per_rank > 1: nn.DataParallel copies the model anew in every step")


def _check_backend(trial: Trial) -> None:
    if trial.backend == "nccl" and trial.device == "cpu":
        raise TrialError("backend", "nccl needs GPUs: with device = 'cpu' it is gloo")
    if trial.backend == "mpi" and trial.launch != "task":
        why = "mpi wants ranks that MPI knows: start them by hand, `mpirun … python -m workers.task …`, with RANK, "
        raise TrialError("backend", f"{why}WORLD_SIZE and so on for each; gloo and nccl do without")
    if trial.backend == "gloo" and trial.device == "cuda" and (field_and_why := needs_point_to_point(trial)):
        raise TrialError(*field_and_why)


def needs_point_to_point(trial: Trial) -> tuple[str, str] | None:
    """The field that asks for point-to-point messages, and why they fail where gloo has tensors on GPUs."""
    if trial.primitives is None:
        alone = trial.world_size == 1 or trial.strategy is None
        if alone or not STRATEGIES[str(trial.strategy)].point_to_point:
            return None
        return "strategy", f"{trial.strategy!r} sends to its neighbor, and {NO_SENDING}: take another strategy"
    for name in trial.composites:
        if STRATEGIES[name].point_to_point:
            return "composites", f"{name!r} sends to its neighbor, and {NO_SENDING}: leave it out"
    if not trial.operations or set(trial.operations) & set(NOT_BY_GLOO):
        return "operations", f"{NO_SENDING}: name the others, without {' and '.join(NOT_BY_GLOO)}"
    return None


def can_share_gpu(trial: Trial) -> bool:
    """Whether ranks of the trial can share a GPU, over gloo."""
    return trial.gpus_per_rank == 1 and trial.launch not in ONE_PROCESS and needs_point_to_point(trial) is None


def _check_sharing(trial: Trial) -> None:
    if trial.device == "cpu":
        raise TrialError("share_gpu", "with device = 'cpu' there is no GPU to share: `--set share_gpu=false`")
    if trial.gpus_per_rank > 1:
        raise TrialError("share_gpu", "with gpus_per_rank > 1: a rank that has several GPUs cannot share one")
    if trial.backend == "nccl":
        raise TrialError("share_gpu", "NCCL refuses two ranks on one GPU: leave backend = 'auto', or take 'gloo'")


def _check_precision(trial: Trial) -> None:
    if trial.amp is not None and trial.dtype == "float64":
        raise TrialError("amp", "autocast leaves float64 as it is: it goes with dtype = 'float32'")
    if trial.amp == "fp16" and trial.strategy is not None and STRATEGIES[trial.strategy].low_rank:
        why = "fp16 overflows now and then, and PowerSGD keeps what it could not send: infinite from then on. Take bf16"
        raise TrialError("amp", why)
    if trial.channels_last and trial.model in NO_IMAGES:
        raise TrialError("channels_last", f"the model {trial.model} has no convolutions: it would change nothing")
