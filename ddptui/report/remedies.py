"""What to try, given what a trial's time was lost to."""

OF_PART = {  # of own work, in which a rank is late
    "data": "Look at how it loads data: its disk, and `num_workers`",
    "forward": "Look at its device: is it slower, hotter or shared, and is its batch larger?",
    "backward": "Look at its device: is it slower, hotter or shared, and is its batch larger?",
    "aggregate": "Look at what it does before it calls the collective",
    "optimizer": "Look at what only this rank does around its optimizer step",
    "between steps": "Look at what its loop does between steps: logging, evaluation, checkpoints",
}
EVERYWHERE = "Give it a core or a device like the others': it is slower in every phase"
OWN_CORE = "To try: end these programs, or give each rank cores of its own (taskset)"
