"""Text against text, trees against trees; never imports torch."""
