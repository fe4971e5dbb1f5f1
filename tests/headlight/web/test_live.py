"""The page that the service serves, as text: what it loads, and what its policy allows.

tests/system/test_live_page.py tests its behaviour in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import re

from headlight.web.assets import VIEW_SCRIPTS, asset
from headlight.web.live import LIVE_SCRIPTS, live_page
from tests.headlight.web.elements import Elements


def test_the_policy_allows_its_own_script_and_style_and_its_own_origin_alone() -> None:
    page = live_page(50051)
    read = Elements(page.html.decode())
    allowed = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    for tag in ("script", "style"):
        (digest,) = re.findall(r"'sha256-(.+)'", allowed.pop(f"{tag}-src"))
        ((_, content),) = [each for each in read.named(tag) if each[1] and "type" not in each[0]]
        assert digest == base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    assert allowed.pop("connect-src") == "'self'"
    assert allowed.pop("img-src") == "data:"
    assert set(allowed.values()) == {"'none'"}
    assert {"default-src", "base-uri", "form-action", "frame-ancestors"} <= allowed.keys()


def test_the_page_has_no_address_no_inline_style_and_no_inline_handler() -> None:
    read = Elements(live_page(50051).html.decode())
    names = [name for _, has, _ in read.found for name in has]
    assert not {"src", "srcset", "style", "action"} & set(names)
    assert not [name for name in names if name.startswith("on")]
    links = [has["href"] for _, has, _ in read.found if "href" in has]
    assert [str(link).partition(",")[0] for link in links] == ["data:image/svg+xml"]
    contents = "".join(content for _, _, content in read.found)
    # The names of XHTML and SVG are no addresses.
    contents = contents.replace("http://www.w3.org/1999/xhtml", "").replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert not re.search(r"https?://|@import|url\(", contents)


def test_it_keeps_nothing_in_the_browser() -> None:
    script = "".join(asset(name) for name in (*VIEW_SCRIPTS, *LIVE_SCRIPTS))
    assert not re.search(r"localStorage|sessionStorage|indexedDB|document\.cookie|caches\b", script)


def test_each_control_has_a_name_and_ids_are_unique() -> None:
    read = Elements(live_page(50051).html.decode())
    ids = [has["id"] for _, has, _ in read.found if "id" in has]
    assert len(ids) == len(set(ids))
    labelled = {has["for"] for tag, has, _ in read.found if tag == "label" and "for" in has}
    for tag, has, _ in read.found:
        if tag == "textarea" or has.get("type") == "password":
            assert has["id"] in labelled
    assert 'data-grpc-port="50051"' in live_page(50051).html.decode()
