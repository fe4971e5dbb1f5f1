"""python -m deploy.check: renders every overlay and example, and holds them to everything; exits 1 where anything is found."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence

from deploy.check import invariants, networking, schemas, security, settings, sources
from deploy.check.manifests import Manifest
from deploy.check.rendering import CannotRender, kustomizations, name_of, render

Renderings = dict[str, list[Manifest]]
SERVING = "deploy/overlays/cpu"  # what examples that stand beside a deployment are compared with
TLS = "deploy/examples/tls"  # and those that stand beside one with TLS


def own_invariants(renderings: Renderings) -> Iterable[str]:
    """Of each rendering by itself, of some beside another, and of the sources."""
    for name, manifests in renderings.items():
        yield from (f"{name}: {line}" for line in invariants.breaches(manifests))
        yield from (f"{name}: {line}" for line in networking.routes_lead_somewhere(manifests, renderings[SERVING]))
        yield from (f"{name}: {line}" for line in networking.gateways_believe_the_service(manifests, renderings[TLS]))
        yield from (f"{name}: {line}" for line in networking.jobs_are_not_served(manifests, renderings[SERVING]))
    yield from settings.open_entries()
    yield from sources.breaches()


def kubernetes_schemas(renderings: Renderings) -> Iterable[str]:
    """Every rendering against Kubernetes' own schemas."""
    for name, manifests in renderings.items():
        yield from (f"{name}: {line}" for line in schemas.kubernetes(manifests))


def rules(renderings: Renderings) -> Iterable[str]:
    """What deploy/check/rules.py has: CHECKS, pairs of a name and a function that returns a line for each thing wrong."""
    if importlib.util.find_spec("deploy.check.rules") is None:
        return ["deploy/check/rules.py is missing: nothing checks the rules of deploy/prometheus"]
    checks: Sequence[tuple[str, Callable[[], list[str]]]] = importlib.import_module("deploy.check.rules").CHECKS
    return [f"{name}: {line}" for name, check in checks for line in check()]


STEPS: dict[str, Callable[[Renderings], Iterable[str]]] = {
    f"schemas of Kubernetes {', '.join(schemas.VERSIONS)}, strict": kubernetes_schemas,
    "custom resources against their projects' types": schemas.custom,
    "own invariants": own_invariants,
    f"checkov, without {', '.join(sorted(security.SKIPS))}": security.policies,
    "rules, alerts and dashboard, by promtool": rules,
}


def report(name: str, found: Sequence[str]) -> None:
    """One line for a step, and one for each thing that is wrong."""
    print(f"{'FAILED' if found else 'ok':6}  {name}", *(f"          {line}" for line in found), sep="\n")


def main() -> int:
    """Runs all steps, whatever the earlier ones found. Returns the exit code."""
    renderings: Renderings = {}
    unrendered = []
    for folder in kustomizations():
        try:
            renderings[name_of(folder)] = render(folder)
        except CannotRender as error:
            unrendered.append(str(error))
    report(f"kubectl kustomize: {len(renderings)} folders, {sum(map(len, renderings.values()))} objects", unrendered)
    wrong = len(unrendered)
    if not {SERVING, TLS} <= renderings.keys():
        return 1
    for name, step in STEPS.items():
        try:
            found = list(step(renderings))
        except (RuntimeError, ValueError, OSError) as error:  # the other steps still have something to say
            found = [f"did not get through: {error}"]
        wrong += len(found)
        report(name, found)
    for skip, why in security.SKIPS.items():
        print(f"skipped {skip}: {why}")
    for (option, value), why in settings.OPEN.items():
        print(f"OPEN    {option}={value}: {why}")
    print(f"found: {wrong}" if wrong else "nothing found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
