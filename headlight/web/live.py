"""The page that the service serves: the views, over requests that the page makes itself."""

from __future__ import annotations

import dataclasses
import string

from headlight.evidence_methods import METHOD_OPTIONS, METHODS
from headlight.web.assets import VIEW_SCRIPTS, asset, digest, script_of
from headlight.web.comparison_page import COMPARISON_SCRIPTS
from headlight.web.page import block

LIVE_SCRIPTS = (
    "live/service.js",
    "live/tensors.js",
    "live/tokens.js",
    "live/models.js",
    "live/card.js",
    "live/tasks.js",
    "live/attention.js",
    "live/similarity.js",
    "live/compare.js",
    "live/embed.js",
    "live/rerank.js",
    "live/classify.js",
    "live/terms.js",
    "live/requests.js",
    "live/form.js",
    "live/link.js",
    "live/picture.js",
    "live/keys.js",
    "live/start.js",
)
# Those of the views come with elements.js.
SCRIPTS = (*VIEW_SCRIPTS, *COMPARISON_SCRIPTS[1:], *LIVE_SCRIPTS)


@dataclasses.dataclass(frozen=True, slots=True)
class LivePage:
    """The page, and the policy it must be sent with.

    Attributes:
        html: the whole page, UTF-8; it loads nothing.
        policy: value of the header Content-Security-Policy. It allows the page's own script and
            style, by their hashes, and requests to the page's own origin.
    """

    html: bytes
    policy: str


def evidence_table() -> dict[str, object]:
    """Return the methods of evidence as the script reads them: their traits, and their options."""
    return {
        name: {
            **dataclasses.asdict(traits),
            "takes": [option for option in METHOD_OPTIONS if traits.takes(option)],
        }
        for name, traits in METHODS.items()
    }


def live_page(grpc_port: int) -> LivePage:
    """Return the page.

    Args:
        grpc_port: port of the service's gRPC, for the requests that the page writes to copy.
    """
    style = asset("page.css") + asset("comparison.css") + asset("live/page.css")
    script = script_of(*SCRIPTS)
    html = string.Template(asset("live/page.html")).substitute(
        grpc_port=grpc_port,
        style=style,
        views=asset("views.html"),
        comparison=asset("comparison_view.html"),
        evidence=block(evidence_table()),
        script=script,
    )
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(script)}';"
        f" style-src 'sha256-{digest(style)}'; connect-src 'self'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return LivePage(html.encode(), policy)
