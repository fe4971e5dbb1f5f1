"""What Hypothesis tries.

In every run the same, so that nobody's change fails by an example that was drawn anew beside it.

`pytest --hypothesis-profile=random` draws anew. Neither has limits of time: a machine that stands
still for a second disproves nothing.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Examples are drawn from the literals of whatever is imported by then, too: to change one of them
# anywhere would be to draw anew.
LITERALS = "_get_local_constants"


def load_profiles() -> None:
    """Draws the same from now on, unless pytest is given another profile."""
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "steady", deadline=None, suppress_health_check=slow, derandomize=True, database=None
    )
    settings.register_profile(
        "random", deadline=None, suppress_health_check=slow, derandomize=False
    )
    settings.load_profile("steady")
    if literals := getattr(providers, LITERALS, None):
        setattr(
            providers,
            LITERALS,
            lambda: type(literals())() if settings().derandomize else literals(),
        )
