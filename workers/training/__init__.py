"""The parts of a training around its loop: data, models, precision, evaluation."""
