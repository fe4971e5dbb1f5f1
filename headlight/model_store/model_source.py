"""Model source: the meaning of MODEL in `headlight serve MODEL` and `headlight export MODEL`."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import re
from pathlib import Path

SHIPPED = "docs-rope"
SHIPPED_PACKAGE = "headlight_model"  # never imported: its folder holds the shipped model
MANIFEST = "manifest.json"
DEFAULT_REVISION = "main"
ROOT_FILES = ("config.json", "modules.json")  # a model folder has one of them
# Suffixes of the files that an export reads, in a folder and in the modules directly below it.
READ = {".json", ".md", ".safetensors", ".txt"}
HUB_ID = re.compile(r"(?![-.])[\w.-]{1,96}(?<![-.])(/(?![-.])[\w.-]{1,96}(?<![-.]))?", re.ASCII)


class ModelSourceError(ValueError):
    """A name denotes no model, or the cache cannot be used; the message has the remedy."""


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model that is not a bundle yet.

    Attributes:
        location: a Hub id, or the absolute path of a folder.
        revision: of the Hub id: a branch, a tag or a commit; empty for a folder.
        digest: SHA-256 in hex of the folder's files; empty for a Hub id.
    """

    location: str
    revision: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """The last part of the location, by which clients know the model."""
        return self.location.rpartition("/")[2]


def find_model(model: str | None, revision: str | None = None) -> Path | ModelSource:
    """Return the bundle that a model's name denotes, or the source that has to be exported.

    A folder of that name takes precedence over a Hub id.

    Args:
        model: a bundle, a folder of a model, or a Hub id; None: the shipped model.
        revision: revision of a Hub id; None: its branch main.

    Raises:
        ModelSourceError: it is none of these, or has a revision and is not a Hub id.
    """
    if model is None:
        bundle = _shipped()
    elif os.path.isdir(model):  # unlike Path's, False for a name that no file can have
        bundle = _folder(Path(model))
    elif is_hub_id(model) and not os.path.exists(model):
        return ModelSource(model, revision or DEFAULT_REVISION)
    else:
        problem = "is a file" if os.path.exists(model) else "does not exist, and is no Hub id"
        raise ModelSourceError(
            f"{model!r:.200} {problem}; "
            "name a bundle, a model's folder, or a Hub id such as org/name"
        )
    if revision is not None:
        raise ModelSourceError(f"--revision is for a Hub id; {model or SHIPPED} is a folder")
    return bundle


def is_hub_id(model: str) -> bool:
    """Return whether a name has the form of a Hub id: `org/name`, or only `name`."""
    return HUB_ID.fullmatch(model) is not None and ".." not in model and "--" not in model


def _folder(folder: Path) -> Path | ModelSource:
    if (folder / MANIFEST).is_file():
        return folder
    if not any((folder / name).is_file() for name in ROOT_FILES):
        raise ModelSourceError(
            f"{folder} is neither a bundle ({MANIFEST}) nor a model's folder "
            f"({' or '.join(ROOT_FILES)}); give one, or a Hub id such as org/name"
        )
    return ModelSource(str(folder.resolve()), digest=_digest(folder))


def _digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of the files that an export reads."""
    total = hashlib.sha256()
    for path in sorted((*folder.glob("*"), *folder.glob("*/*"))):
        if path.suffix in READ and path.is_file():
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").digest()
            except OSError as error:
                raise ModelSourceError(
                    f"{path} cannot be read ({error.strerror}); correct it, "
                    "or fetch the folder anew"
                ) from None
            total.update(str(path.relative_to(folder)).encode() + b"\0" + digest)
    return total.hexdigest()


def _shipped() -> Path | ModelSource:
    """Return the bundle or the checkpoint of the shipped model.

    Raises:
        ModelSourceError: this installation has neither.
    """
    spec = importlib.util.find_spec(SHIPPED_PACKAGE)
    package = Path(spec.origin).parent if spec is not None and spec.origin else None
    for kind in ("bundles", "checkpoints"):
        if package is not None and (package / kind / SHIPPED).is_dir():
            return _folder(package / kind / SHIPPED)
    raise ModelSourceError("no model is named, and none is shipped here; name a bundle or a Hub id")
