"""Errors of a download as one line each, with the remedy."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from headlight_export.folders.model_folder import Refused

TOO_MANY_REQUESTS = 429


class HubUnavailable(OSError):
    """The Hub gives no answer, or none for now; a retry may succeed."""


@contextlib.contextmanager
def explained(model: str, revision: str) -> Iterator[None]:
    """Raise the errors of huggingface_hub in the block as one line.

    Raises:
        Refused: the same command can never succeed.
        HubUnavailable: it may succeed later.
        OSError: the disk is full, or a file cannot be written.
    """
    try:
        yield
    except (Refused, HubUnavailable):
        raise
    except GatedRepoError:
        raise Refused(
            f"{model} is gated: accept its terms on its page, and set HF_TOKEN to your token"
        ) from None
    except RepositoryNotFoundError:
        raise Refused(
            f"there is no model {model} on the Hub, and no such folder here; correct the name, "
            "or set HF_TOKEN if it is private"
        ) from None
    except RevisionNotFoundError:
        raise Refused(
            f"{model} has no revision {revision}; give a branch, a tag or a commit (--revision)"
        ) from None
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        raise _absent(model, error) from None
    except HfHubHTTPError as error:
        raise HubUnavailable(_refused_for_now(model, error)) from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(
                f"the disk is full: {model} does not fit into {constants.HF_HUB_CACHE}; "
                "free some space, or set HF_HOME"
            ) from None
        if error.errno is not None:  # of this machine: permissions, for example
            raise
        raise _unreachable(model, error) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"httpx", "httpx2", "huggingface_hub"}:
            raise
        raise _unreachable(model, error) from None


def _absent(model: str, error: Exception) -> OSError:
    """Return the error for a model that is not here, while the Hub cannot be asked."""
    if constants.HF_HUB_OFFLINE:
        return HubUnavailable(
            f"HF_HUB_OFFLINE is set, and {model} is not in {constants.HF_HUB_CACHE}; "
            "unset it for the first start, or bring the files"
        )
    cause = error.__cause__
    if isinstance(cause, HfHubHTTPError):
        return HubUnavailable(_refused_for_now(model, cause))
    return _unreachable(model, cause or error)


def _refused_for_now(model: str, error: HfHubHTTPError) -> str:
    status = error.response.status_code
    if status == TOO_MANY_REQUESTS:
        why = "429, too many requests"
        return f"the Hub refuses {model} for now ({why}); try again later, or set HF_TOKEN"
    return f"the Hub answered {status} for {model}; try again later"


def _unreachable(model: str, error: BaseException) -> HubUnavailable:
    return HubUnavailable(
        f"cannot download {model} from {constants.ENDPOINT} ({type(error).__name__}); check the "
        "network and HF_ENDPOINT and try again: what has come is kept"
    )
