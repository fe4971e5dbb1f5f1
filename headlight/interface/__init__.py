"""Interface of clients and runtime: their methods, arguments and the checks of these."""
