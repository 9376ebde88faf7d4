"""The jobs with which a platform's pods join a run whose console waits elsewhere. Only text: nothing is submitted."""
