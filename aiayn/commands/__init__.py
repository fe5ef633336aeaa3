"""One file a command: parse, call, report; torch is imported only when work begins."""
