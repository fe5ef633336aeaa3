"""An English-German corpus of our own, made by rule: words, forms, grammar, files."""
