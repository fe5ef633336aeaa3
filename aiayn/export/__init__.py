"""Models in the formats of other toolkits: export, import, and a check that they agree."""
