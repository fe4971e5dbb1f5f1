"""Options of the service: flags, environment variables, validation."""
