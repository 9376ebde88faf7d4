"""How many files a process may have open."""

import resource


def allow_open_files(wanted: int) -> int:
    """Raise this process's limit, which its ranks inherit, to `wanted`, or as far as that is allowed. Returns how many
    of them it may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS allows less than it says
        return soft
    return most
