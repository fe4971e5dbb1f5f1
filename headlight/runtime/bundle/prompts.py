"""What is put before texts: the prompts that a model was trained with, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from headlight.errors import InvalidInput

# Characters. It is tokenised again with each text of a request, so it must not be what makes a request expensive.
LONGEST_PROMPT = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """What is put before each text of a request.

    Attributes:
        text: may be empty.
        asked: for, rather than the model's default: where it cannot be put, it is refused and not left out.
    """

    text: str = ""
    asked: bool = False

    def check_kind(self, what: str) -> None:
        """Before an input that is no single text. Raises InvalidInput, its field empty, where a prompt was asked for."""
        if self.asked and self.text:
            raise InvalidInput("", f"a prompt goes before a text, and {what} are taken as they are; ask for none")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompts:
    """Those of a model, by name, and the name of the one that stands where nothing is said; None: none does."""

    by_name: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default: str | None = None

    def choose(self, name: str | None, text: str | None) -> Prompt:
        """The prompt that a caller means.

        Args:
            name: of one of these; None: not said.
            text: any; empty for none at all; None: not said.

        Raises:
            InvalidInput: both are said, there is none of that name, or the text is too long.
        """
        if name is not None and text is not None:
            raise InvalidInput("prompt_name", "and prompt_text are both set; send one of them")
        if name is not None:
            if name not in self.by_name:
                raise InvalidInput(
                    "prompt_name",
                    f"is none of this model's; there is {', '.join(self.by_name) or 'none':.1000}, or use prompt_text",
                )
            return Prompt(self.by_name[name], asked=True)
        if text is not None:
            if len(text) > LONGEST_PROMPT:
                raise InvalidInput("prompt_text", f"has {len(text)} characters; at most {LONGEST_PROMPT} are taken")
            return Prompt(text, asked=True)
        return Prompt() if self.default is None else Prompt(self.by_name[self.default])
