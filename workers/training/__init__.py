"""What a training loop needs besides the loop: data, models, precision, evaluation."""
