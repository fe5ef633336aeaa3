"""Models of other toolkits: ours in their formats, and theirs in ours."""
