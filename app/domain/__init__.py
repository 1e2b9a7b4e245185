"""What is true, whoever asks: decisions, events and errors, on the standard library alone."""
