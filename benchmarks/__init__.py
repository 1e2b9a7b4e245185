"""What Retold costs, as ratios: each figure beside the same work written by hand, on the same servers in one run."""
