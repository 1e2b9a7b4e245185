"""Demo data, written through the use cases alone, so that it is told as everything else is."""
