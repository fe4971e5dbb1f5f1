"""The page that the service serves: tokens, errors, its policy, its looks, its copied requests."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from google.protobuf import json_format

from headlight import Client
from headlight.pb import headlight_pb2 as pb
from tests.system.browser import Browser
from tests.system.conftest import bundle_of
from tests.system.live import ANSWERED, choose, send, show_task, visit
from tests.system.pages import LONG, MIDDLE, SHORT
from tests.system.processes import ROOT, Service

TOKEN = "a-token-of-the-page"
HOSTILE = '</script><img src=x onerror="document.title=\'owned\'"> it\'s $HOME `id` \\ \n\u202e"""'


@pytest.fixture
def page(chromium: Browser, rope: Service) -> Iterator[Browser]:
    with visit(chromium, rope.rest) as browser:
        yield browser


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"page {TOKEN}\n", encoding="utf-8")
    with Service(bundle_of("docs-rope"), "--auth-tokens", str(tokens)) as service:
        yield service


def test_a_token_is_asked_for_used_and_kept_in_memory_alone(
    chromium: Browser, guarded: Service
) -> None:
    with visit(chromium, guarded.rest, refused=True) as page:
        page.wait("document.querySelector('#problem').textContent")
        assert page.text("#problem").startswith("This service asks for a bearer token")
        assert page.evaluate("document.activeElement.id") == "token"
        page.call("Input.insertText", text="a-wrong-token")
        page.press("Enter")
        page.wait("document.querySelector('#problem').textContent.includes('not accept')")
        page.call("Input.insertText", text=TOKEN)
        page.press("Enter")
        page.wait("document.querySelector('#model-line').textContent.includes('docs-rope')")
        send(page, SHORT)
        assert page.evaluate("document.querySelectorAll('#keys .token').length") == 5
        kept = page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href,"
            " document.documentElement.outerHTML, document.querySelector('#token').value])"
        )
        assert TOKEN not in kept
        assert "$HEADLIGHT_TOKEN" in kept
        assert not [url for url in page.requests if TOKEN in url]
        page.open(f"http://{guarded.rest}/")
        page.wait("document.querySelector('#problem').textContent")
        page.click("#forget")


def test_an_error_of_the_service_is_shown_in_plain_words(chromium: Browser, rope: Service) -> None:
    with visit(chromium, rope.rest, refused=True) as page:
        send(page, "\n".join([LONG] * 14))
        assert page.text("#problem").startswith("The service refused this. It says: inputs[0].text")
        assert "2048" in page.text("#problem").replace(",", "")
        send(page, SHORT)
        assert not page.evaluate("document.querySelector('#problem').checkVisibility()")
        show_task(page, "similarity")
        send(page, "one text", "#texts")
        assert "give 2 to 24" in page.text("#problem")


def test_a_service_that_has_ended_is_named(chromium: Browser) -> None:
    with Service(bundle_of("docs-rope")) as service, visit(chromium, service.rest) as page:
        page.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
        service.terminate()
        service.wait()
        send(page, SHORT)
        assert page.text("#problem").startswith("The service does not answer.")
        assert [line for line in page.problems if "ERR_CONNECTION_REFUSED" not in line] == []
        page.problems.clear()


def test_the_browser_lets_the_page_ask_no_other_host(page: Browser, rope: Service) -> None:
    send(page, SHORT)
    host, _, port = rope.rest.partition(":")
    violated = page.evaluate(
        "new Promise((done) => { addEventListener('securitypolicyviolation',"
        " (event) => done(event.effectiveDirective));"
        f" fetch('http://localhost:{port}/').catch(() => 0); }})"
    )
    assert (host, violated) == ("127.0.0.1", "connect-src")
    run = page.evaluate(
        "(() => { const made = document.createElement('script');"
        " made.textContent = 'window.ran = true'; document.body.append(made);"
        " return window.ran === true; })()"
    )
    assert run is False
    page.problems.clear()
    page.requests.clear()


def test_hostile_texts_are_shown_as_text(page: Browser) -> None:
    send(page, HOSTILE)
    for part in ("tokens", "request", "card"):
        page.click(f"#{part}-part summary")
    show_task(page, "similarity")
    send(page, f"{HOSTILE}\nread a file", "#texts")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.title") == "docs-rope · Headlight"


def test_a_link_of_a_stranger_fills_the_form_and_is_sent_once(
    chromium: Browser, rope: Service
) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\">"
    parts = {"task": "compare", "query": attack, "passages": f"{attack}\nread a file"}
    parts |= {"evidence": f"span,{attack}", "by": attack, "theme": attack, "truncation": attack}
    parts |= {"token": attack, "max_encodings": "999999", "model": "docs-rope", "form": attack}
    with visit(chromium, rope.rest) as page:
        page.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
        page.requests.clear()
        page.open(f"http://{rope.rest}/", f"#{urlencode(parts)}")
        page.wait(f"document.querySelector('#comparison').checkVisibility() && {ANSWERED}")
        paths = [url.rpartition("/v1/")[2] for url in page.requests if "/v1/" in url]
        assert paths == ["model", "models", "compare"]
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        assert page.evaluate("document.title") == "docs-rope · Headlight"
        assert page.text(".passage:nth-child(1) .passage-text") == attack
        assert page.evaluate("document.documentElement.dataset.theme") == "system"
        assert page.evaluate("document.querySelector('#token').value") == ""
        for fragment in (f"texts={'a%0A' * 1001}", f"texts=a%0Ab&by={'a' * 20_000}"):
            page.open(f"http://{rope.rest}/", f"#task=similarity&{fragment}")
            page.wait(f"document.querySelector('#card-part').checkVisibility() && {ANSWERED}")
            assert page.evaluate("document.querySelector('#texts').value") == ""
        page.open(f"http://{rope.rest}/", "#task=embed&texts=a&model=other")
        page.wait("document.querySelector('#problem').textContent")
        assert "model other, which is not served" in page.text("#problem")


@pytest.mark.parametrize("width", [360, 1280])
def test_no_element_overflows_the_window(width: int, page: Browser) -> None:
    page.screen(width, 800)
    send(page, MIDDLE)
    for part in ("tokens", "request", "card"):
        page.click(f"#{part}-part summary")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("#token-button")
    show_task(page, "similarity")
    send(page, "\n".join(f"{at} {MIDDLE}" for at in range(24)), "#texts")
    assert page.evaluate("document.querySelectorAll('#cosines td').length") == 576
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_has_two_themes_and_a_switch(page: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    page.screen(1280, 900, dark=True)
    assert page.evaluate(background) == "rgb(15, 18, 22)"
    page.click("#theme")  # before any text was sent
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def copied(page: Browser, language: str) -> str:
    """Return the request in a language, as the page shows it."""
    page.evaluate(f"document.querySelector('input[value={language}]').click()")
    found: str = page.evaluate("document.querySelector('#request').textContent")
    return found


@pytest.mark.parametrize("text", [SHORT, HOSTILE])
def test_copied_requests_work_as_they_are(text: str, page: Browser, rope: Service) -> None:
    page.evaluate(f"document.querySelector('#text').value = {json.dumps(text)}")
    page.click("#send")
    page.wait(ANSWERED)
    page.click("#request-part summary")
    command = copied(page, "curl")
    answer = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=True, text=True, timeout=60
    )
    with Client(rope.target) as client:
        expected = client.attend(text)
    assert json.loads(answer.stdout)["items"][0]["tokens"]["ids"] == list(expected.tokens.ids)
    words = shlex.split(copied(page, "grpcurl"))
    request = json_format.Parse(words[words.index("-d") + 1], pb.EncodeRequest())
    assert request.inputs[0].text == text
    assert words[-2:] == [rope.target, "headlight.v1.HeadlightService/Encode"]
    for form in ("heads", "mean"):
        choose(page, "#form", form)
        run = subprocess.run(
            [sys.executable, "-c", copied(page, "python")],
            capture_output=True,
            check=True,
            cwd=ROOT,
            text=True,
            timeout=60,
        )
        assert run.stdout
