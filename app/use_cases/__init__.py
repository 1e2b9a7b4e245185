"""What the product can do: one module, one verb, one transaction."""
