"""Page of all errors: Python's classes, gRPC's statuses, and the reasons for machines."""

from __future__ import annotations

import inspect

from docs.site.markdown import NOTE, cell, code, table
from headlight import errors
from headlight.errors import HeadlightError
from headlight_service.core.admission.shed_error import Shortage
from headlight_service.frontends.grpc.grpc_status import STATUS_BY_CODE

HEAD = """# Errors by class

[Errors](../errors.md) has what to do about each status. The modules are `headlight.errors` and,
for the common classes, `headlight`. The client alone raises `MixedWeights` and `BadAnswer`. A
`BundleError` ends a start and is never sent."""
REASONS = """## Reasons of a refusal

A status RESOURCE_EXHAUSTED has one of these reasons, in capitals, in `ErrorInfo` and in
`Status.reason`. Other statuses have the code of the table above. The metric
`headlight_rejected_total` has the same in lower case."""


def classes() -> list[type[HeadlightError]]:
    """Return all errors, in the order of the module."""
    found = vars(errors).values()
    return [each for each in found if isinstance(each, type) and issubclass(each, HeadlightError)]


def page() -> str:
    """Return the page."""
    rows = [
        (
            code(error.__name__),
            code(base) if (base := error.__bases__[0].__name__) != "Exception" else "",
            code(error.code.value),
            STATUS_BY_CODE[error.code].name,
            cell(inspect.getdoc(error) or "").partition(" Attributes:")[0],
        )
        for error in classes()
    ]
    found = table(("class", "below", "code", "gRPC status", "meaning"), rows)
    reasons = "\n".join(f"- {code(shortage.value.upper())}" for shortage in Shortage)
    return f"{NOTE}{HEAD}\n\n{found}\n{REASONS}\n\n{reasons}\n"
