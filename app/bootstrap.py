"""The composition root: the only place where ports meet adapters."""
