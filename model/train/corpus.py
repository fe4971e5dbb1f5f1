"""The corpus: the source code and the documentation of the running Python's own standard library. Needs no torch.

It is on every machine that can train, has a permissive licence, and asks for order: brackets, repeated names.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from model.train.sentences import first_sentence

# Folders that are not the library itself, and `encodings`, which is almost wholly tables of characters.
LEFT_OUT = frozenset(
    {"test", "tests", "idlelib", "turtledemo", "ensurepip", "site-packages", "dist-packages", "encodings"}
)
ONE_PLATFORM = ("_sysconfigdata", "_osx_support")  # prefixes: facts about one build or one system
PROSE_MODULE = "pydoc_data"  # its one table holds the language reference as plain text
HELD_OUT_SHARE = 0.10
SPLIT_SALT = "headlight"  # changes which modules are held out

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MEANINGLESS = frozenset({"self", "cls", "args", "kwargs"})  # in nearly every body


@dataclasses.dataclass(frozen=True)
class Source:
    """One text of the corpus: a file, or one topic of the language reference."""

    module: str  # dotted
    text: str


@dataclasses.dataclass(frozen=True)
class Function:
    """A function or method of the standard library, as its syntax tree shows it."""

    module: str  # dotted
    name: str  # qualified inside its module: "Path.read_text"
    parameters: tuple[str, ...]  # without self and cls
    summary: str  # the first sentence of the docstring; empty where there is none
    body_words: tuple[str, ...]  # lower-case words of the names in the body, first occurrence each, docstring left out
    first_line: int  # 1-based, of the `def`
    last_line: int  # inclusive


def top_level(module: str) -> str:
    """The part of a dotted name that the split looks at."""
    return module.partition(".")[0]


def is_held_out(module: str) -> bool:
    """Whether a module belongs to the validation part. The same on every machine; a package is never divided."""
    digest = hashlib.sha256(f"{SPLIT_SALT}:{top_level(module)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64


def split_words(name: str) -> list[str]:
    """Lower-case words of a name, cut at underscores, dots, changes of case: "readHTTPLine_2" -> read http line 2."""
    return [word.lower() for word in WORD.findall(name)]


def stdlib_files(root: Path | None = None) -> list[tuple[str, Path]]:
    """(dotted module, file) of each library file, sorted by module. `root`: the running Python's library."""
    root = root or Path(sysconfig.get_path("stdlib"))
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if LEFT_OUT.isdisjoint(parts) and not parts[0].startswith(ONE_PLATFORM):
            found.append((".".join(part for part in parts if part != "__init__"), path))
    return sorted(found)


@functools.cache
def files() -> tuple[Source, ...]:
    """The library's files, sorted by module."""
    return tuple(Source(module, path.read_text(encoding="utf-8")) for module, path in stdlib_files())


@functools.cache
def sources() -> tuple[Source, ...]:
    """The texts for masked-token prediction: each file as it stands, and the language reference topic by topic."""
    code = [source for source in files() if top_level(source.module) != PROSE_MODULE]
    return (*code, *topics())


def topics() -> list[Source]:
    """The language reference that `help()` shows, a text a topic."""
    found = []
    for source in files():
        if top_level(source.module) == PROSE_MODULE:
            for node in ast.walk(ast.parse(source.text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
                    found.append(Source(source.module, node.value))
    return found


def corpus_sha256() -> str:
    """Identifies the corpus: lower-case hex over every text, in order."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update(f"{source.module}\0{source.text}\0".encode())
    return digest.hexdigest()


def functions(modules: Sequence[str] | None = None) -> list[Function]:
    """Functions and methods of the library, sorted by module, then in the order of the file.

    Args:
        modules: dotted names; a package includes what it holds. None: all.

    Raises:
        ValueError: a module that the corpus does not hold.
    """
    chosen = files() if modules is None else select(modules)
    return [function for source in chosen for function in functions_of(source)]


def select(modules: Sequence[str]) -> list[Source]:
    """The files of the named modules and packages. Raises ValueError for a name without any."""
    chosen: dict[str, Source] = {}
    for name in modules:
        held = {source.module: source for source in files() if f"{source.module}.".startswith(f"{name}.")}
        if not held:
            raise ValueError(f"module {name!r} is not in the corpus; name one of the library, written in Python")
        chosen |= held
    return [chosen[module] for module in sorted(chosen)]


@functools.cache
def functions_of(source: Source) -> tuple[Function, ...]:
    """The functions of one file, those inside classes and other functions too."""
    found: list[Function] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                visit(child, prefix)
                continue
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                found.append(describe(source.module, name, child))
            visit(child, f"{name}.")

    visit(ast.parse(source.text), "")
    return tuple(sorted(found, key=lambda function: function.first_line))


def describe(module: str, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    """The `Function` that a syntax tree stands for."""
    arguments = node.args
    declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    declared += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    docstring = ast.get_docstring(node)
    body = node.body[1:] if docstring is not None else node.body
    return Function(
        module=module,
        name=name,
        parameters=tuple(argument.arg for argument in declared if argument.arg not in ("self", "cls")),
        summary=first_sentence(docstring or ""),
        body_words=body_words(body),
        first_line=node.lineno,
        last_line=node.end_lineno or node.lineno,
    )


def body_words(body: Iterable[ast.stmt]) -> tuple[str, ...]:
    """Words of the names that statements use, in the order of the text, each once; single letters are left out."""
    named: list[tuple[int, int, str]] = []
    for statement in body:
        for node in ast.walk(statement):
            name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "arg", None)
            if isinstance(name, str):
                named.append((getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0), name))
    words = [word for _, _, name in sorted(named) for word in split_words(name)]
    return tuple(word for word in dict.fromkeys(words) if len(word) > 1 and word not in MEANINGLESS)


def document_text(function: Function) -> str:
    """What a function is found by: words of its name | parameters | words of its body. Never its docstring."""
    name = " ".join(split_words(function.name))
    parameters = " ".join(word for parameter in function.parameters for word in split_words(parameter))
    return " | ".join(part for part in (name, parameters, " ".join(function.body_words)) if part)
