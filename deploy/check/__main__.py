"""python -m deploy.check: render overlays and examples, run all checks; exit 1 on a finding."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Sequence

from deploy.check import (
    chart,
    compose,
    invariants,
    kserve,
    networking,
    rayjob,
    rules,
    schemas,
    security,
    sources,
)
from deploy.check.manifests import Manifest
from deploy.check.rendering import CannotRender, kustomizations, name_of, render

Renderings = dict[str, list[Manifest]]
SERVING = "deploy/overlays/cpu"  # examples beside a deployment are compared with this one
KSERVE = "deploy/examples/kserve"
TLS = "deploy/examples/tls"  # and those beside a deployment with TLS with this one


def check_invariants(renderings: Renderings) -> Iterable[str]:
    """Check each rendering by itself, some beside another, and the sources."""
    for name, manifests in renderings.items():
        # KServe makes the Services, and exposes one port of a pod.
        held = [] if name == KSERVE else networking.INVARIANTS
        yield from (f"{name}: {line}" for line in invariants.breaches(manifests, held))
        lines = (
            networking.routes_lead_somewhere(manifests, renderings[SERVING]),
            networking.gateways_believe_the_service(manifests, renderings[TLS]),
            networking.jobs_are_not_served(manifests, renderings[SERVING]),
        )
        yield from (f"{name}: {line}" for line in itertools.chain(*lines))
    yield from sources.breaches()


def kubernetes_schemas(renderings: Renderings) -> Iterable[str]:
    """Check every rendering against Kubernetes' own schemas."""
    for name, manifests in renderings.items():
        yield from (f"{name}: {line}" for line in schemas.kubernetes(manifests))


def prometheus(_renderings: Renderings) -> Iterable[str]:
    """Check the rules of deploy/prometheus, the runbooks and the dashboard."""
    return [f"{name}: {line}" for name, check in rules.CHECKS for line in check()]


def compose_file(_renderings: Renderings) -> Iterable[str]:
    """Check deploy/compose, which no overlay renders."""
    return compose.breaches()


def helm_chart(renderings: Renderings) -> Iterable[str]:
    """Check that the chart makes the objects of the overlays. The other steps check it, too."""
    return chart.differences(renderings)


def ray_job(_renderings: Renderings) -> Iterable[str]:
    """Check examples/ray, which no overlay renders."""
    return rayjob.breaches()


STEPS: dict[str, Callable[[Renderings], Iterable[str]]] = {
    f"schemas of Kubernetes {', '.join(schemas.VERSIONS)}, strict": kubernetes_schemas,
    "custom resources against their projects' types": schemas.custom,
    "own invariants": check_invariants,
    f"checkov, without {', '.join(sorted(security.SKIPS))}": security.policies,
    "rules, alerts and dashboard, by promtool": prometheus,
    "the Helm chart beside the overlays": helm_chart,
    "RayJob: its fields, its pods by the schemas of Kubernetes": ray_job,
    "compose.yaml: its schema, compose-lint, its files, promtool": compose_file,
}


def report(name: str, findings: Sequence[str]) -> None:
    """Print one line for a step, and one for each finding."""
    print(
        f"{'FAILED' if findings else 'ok':6}  {name}",
        *(f"          {line}" for line in findings),
        sep="\n",
    )


def main() -> int:
    """Run all steps, even after failures. Return the exit code."""
    renderings: Renderings = {}
    unrendered = []
    for folder in kustomizations():
        try:
            manifests = render(folder)
            unrendered += [f"{name_of(folder)}: {line}" for line in kserve.breaches(manifests)]
            renderings[name_of(folder)] = kserve.deployments(manifests)
        except CannotRender as error:
            unrendered.append(str(error))
    renderings |= chart.renderings()
    report(
        (
            f"kubectl kustomize and Helm: {len(renderings)} renderings, "
            f"{sum(map(len, renderings.values()))} objects"
        ),
        unrendered,
    )
    wrong = len(unrendered)
    if not {SERVING, TLS} <= renderings.keys():
        return 1
    for name, step in STEPS.items():
        try:
            findings = list(step(renderings))
        except (RuntimeError, ValueError, OSError) as error:  # the other steps can still report
            findings = [f"the check failed: {error}"]
        wrong += len(findings)
        report(name, findings)
    for skip, why in (security.SKIPS | compose.SKIPS).items():
        print(f"skipped {skip}: {why}")
    print(f"found: {wrong}" if wrong else "nothing found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
