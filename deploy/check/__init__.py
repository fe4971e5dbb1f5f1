"""`make deploy-check`: all checks of deploy/ that need no cluster."""
