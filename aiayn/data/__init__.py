"""Text in, batches out; knows files, not networks."""
