"""Why a launch failed, or where it hangs. Pure."""
