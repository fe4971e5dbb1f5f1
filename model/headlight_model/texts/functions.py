"""Functions of the corpus from their syntax trees, and the text that each is found by.

Needs no torch.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterable, Sequence

from headlight_model.texts import corpus
from headlight_model.texts.corpus import Source
from headlight_model.texts.sentences import first_sentence

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MEANINGLESS = frozenset({"self", "cls", "args", "kwargs"})  # in nearly every body
DEFINITION = "def"  # stands between the module and the name of a document
NAME_WEIGHT = 3  # how often lexical search counts the name: it says more than the body


@dataclasses.dataclass(frozen=True)
class Function:
    """A function or method of the corpus."""

    module: str  # dotted
    name: str  # qualified inside its module: "Path.read_text"
    parameters: tuple[str, ...]  # without self and cls
    docstring: str  # with its indentation removed; empty where there is none
    # Lower-case words of names and strings in the body, once each; no docstring.
    body_words: tuple[str, ...]
    first_line: int  # 1-based, of the `def`
    last_line: int  # inclusive
    package: str = corpus.STDLIB  # that holds it

    @property
    def summary(self) -> str:
        """The first sentence of the docstring; empty where there is none."""
        return first_sentence(self.docstring)


def split_words(name: str) -> list[str]:
    """Return the lower-case words of a name, split at underscores, dots and changes of case.

    "readHTTPLine_2" -> read http line 2.
    """
    return [word.lower() for word in WORD.findall(name)]


def unique_words(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the words of several texts in their order, each once.

    Single letters and words of nearly every body are left out.
    """
    words = dict.fromkeys(word for text in texts for word in split_words(text))
    return tuple(word for word in words if len(word) > 1 and word not in MEANINGLESS)


def functions(modules: Sequence[str] | None = None) -> list[Function]:
    """Return functions and methods of the library, by module, then in the order of the file.

    Args:
        modules: dotted names; a package includes what it holds. None: all.

    Raises:
        ValueError: a module that the corpus does not hold.
    """
    chosen = corpus.files() if modules is None else corpus.select(modules)
    return [function for source in chosen for function in functions_of(source)]


@functools.cache
def functions_of(source: Source) -> tuple[Function, ...]:
    """Return the same as `parse`, cached: the standard library is read often."""
    return parse(source)


def parse(source: Source) -> tuple[Function, ...]:
    """Return the functions of one file, those inside classes and other functions too."""
    functions: list[Function] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                visit(child, prefix)
                continue
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                functions.append(describe(source, name, child))
            visit(child, f"{name}.")

    visit(ast.parse(source.text), "")
    return tuple(sorted(functions, key=lambda function: function.first_line))


def describe(source: Source, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    """Return the `Function` of a syntax tree."""
    arguments = node.args
    declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    declared += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    docstring = ast.get_docstring(node)
    return Function(
        module=source.module,
        name=name,
        parameters=tuple(
            argument.arg for argument in declared if argument.arg not in ("self", "cls")
        ),
        docstring=docstring or "",
        body_words=body_words(node.body if docstring is None else node.body[1:]),
        first_line=node.lineno,
        last_line=node.end_lineno or node.lineno,
        package=source.package,
    )


def body_words(body: Iterable[ast.stmt]) -> tuple[str, ...]:
    """Return the words of the names and strings in some statements, each once.

    They are in the order of the text.
    """
    said: list[tuple[int, int, str]] = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant):
                text = node.value
            else:
                text = (
                    getattr(node, "id", None)
                    or getattr(node, "attr", None)
                    or getattr(node, "arg", None)
                )
            if isinstance(text, str):
                said.append(
                    (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0), text)
                )
    return unique_words(text for _, _, text in sorted(said))


def document_text(function: Function, name_weight: int = 1, *, module: bool = True) -> str:
    """Return the text that a function is found by: "module def name ( parameters ) body".

    Never its docstring. Each part is lower-case words, separated by blanks. The name stands
    between "def" and the bracket, as in source.

    Args:
        name_weight: how often the name is repeated, for contestants that cannot weight it.
        module: whether the module is included.
    """
    words = [
        *(module_words(function.module) if module else ()),
        DEFINITION,
        *split_words(function.name) * name_weight,
    ]
    return " ".join([*words, signature_text(function)])


def module_words(module: str) -> list[str]:
    """Return the words of the first and the last part of a dotted name."""
    parts = module.split(".")
    return split_words(" ".join(dict.fromkeys((parts[0], parts[-1]))))


def signature_text(function: Function) -> str:
    """Return the document without the name: "( parameters ) body"."""
    parameters = (word for parameter in function.parameters for word in split_words(parameter))
    return " ".join(["(", *parameters, ")", *function.body_words])


def document_of_0_1(function: Function) -> str:
    """Return the document of a function in the format of models before 0.2.

    The name three times | parameters | body, empty parts left out.
    """
    parameters = " ".join(
        word for parameter in function.parameters for word in split_words(parameter)
    )
    parts = (
        " ".join(split_words(function.name) * NAME_WEIGHT),
        parameters,
        " ".join(function.body_words),
    )
    return " | ".join(part for part in parts if part)
