"""Prompts that a model was trained with, by name; each goes before a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from headlight.errors import InvalidInput, Reason
from headlight.spec import ROLE_PROMPTS, InputRole

# Characters. A prompt is tokenised again with each text of a request, so it must stay cheap.
LONGEST_PROMPT = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """The text that goes before each text of a request.

    Attributes:
        text: the prompt; may be empty.
        requested: whether the caller named it; else it is the model's default. An input that cannot
            take a requested prompt is refused.
    """

    text: str = ""
    requested: bool = False

    def check_kind(self, what: str) -> None:
        """Check that no prompt was requested for an input other than a single text.

        Raises:
            InvalidInput: a prompt was requested; the field is empty.
        """
        if self.requested and self.text:
            raise InvalidInput("", Reason.NO_PROMPT_FOR, what=what)


@dataclasses.dataclass(frozen=True, slots=True)
class Prompts:
    """A model's prompts by name, and the name of the default prompt; None: no default."""

    by_name: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default: str | None = None

    def choose(self, name: str | None, text: str | None, role: InputRole | None = None) -> Prompt:
        """Return the prompt that a caller requests.

        Args:
            name: name of one of these prompts; None: not set.
            text: any text; empty: no prompt; None: not set.
            role: if neither is set, its prompt goes before the default.

        Raises:
            InvalidInput: both are set, no prompt has that name, or the text is too long.
        """
        if name is not None and text is not None:
            raise InvalidInput("prompt_name", Reason.TWO_PROMPTS_SET)
        if name is not None:
            if name not in self.by_name:
                have = f"{', '.join(self.by_name):.800}"
                reason = Reason.NO_SUCH_PROMPT if have else Reason.NO_PROMPTS
                raise InvalidInput("prompt_name", reason, names=have)
            return Prompt(self.by_name[name], requested=True)
        if text is not None:
            if len(text) > LONGEST_PROMPT:
                raise InvalidInput(
                    "prompt_text", Reason.LONG_PROMPT, count=len(text), most=LONGEST_PROMPT
                )
            return Prompt(text, requested=True)
        names = ROLE_PROMPTS.get(role, ())
        default = next((each for each in names if each in self.by_name), self.default)
        return Prompt() if default is None else Prompt(self.by_name[default])
