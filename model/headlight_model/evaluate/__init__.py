"""What the shipped models can do, measured on modules that took no part in their training, beside simpler means."""
