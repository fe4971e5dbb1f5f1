"""The elements of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Parser of the elements of a page: attributes, content, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.text = ""
        self.inside = False  # of a script or a style sheet
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self.inside = tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attributes, content = self.found[-1]
            self.found[-1] = (tag, attributes, content + data)
        else:
            self.text += data

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, content) for each, attributes, content in self.found if each == tag]

    def block(self, name: str) -> str:
        (content,) = [
            content for attributes, content in self.named("script") if attributes.get("id") == name
        ]
        return content
