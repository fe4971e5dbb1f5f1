"""`make deploy-check`: everything under deploy/ that can be held to a rule without a cluster is."""
