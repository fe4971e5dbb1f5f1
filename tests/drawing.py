"""Hypothesis profiles.

The default profile draws the same examples in every run, so that no change fails because of new
examples. `pytest --hypothesis-profile=random` draws new ones.

Neither has a time limit: a pause of the machine is no failure.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Hypothesis also draws from the literals of imported modules: changing a literal anywhere
# would change the examples.
LITERALS = "_get_local_constants"


def load_profiles() -> None:
    """Load the reproducible profile, unless pytest is given another one."""
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "steady", deadline=None, suppress_health_check=slow, derandomize=True, database=None
    )
    settings.register_profile(
        "random", deadline=None, suppress_health_check=slow, derandomize=False
    )
    settings.load_profile("steady")
    if literals := getattr(providers, LITERALS, None):
        from hypothesis.internal.constants_ast import Constants

        setattr(
            providers,
            LITERALS,
            lambda: Constants() if settings().derandomize else literals(),
        )
