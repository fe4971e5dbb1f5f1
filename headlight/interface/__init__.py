"""What clients and runtime share: their methods, arguments and the checks of these."""
