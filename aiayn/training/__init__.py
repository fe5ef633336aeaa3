"""Section 5 of the paper: loss, schedule, loop, averaging."""
