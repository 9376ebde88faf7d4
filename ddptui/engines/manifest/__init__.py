"""What a platform takes, so that its pods join a run whose console waits elsewhere. Only text: nothing is submitted."""
