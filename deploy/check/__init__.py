"""`nox -s deploy-check`: all checks of deploy/ that need no cluster."""
