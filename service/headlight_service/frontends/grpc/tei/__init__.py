"""Services tei.v1 on the port of headlight.v1."""
