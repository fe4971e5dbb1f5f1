"""Dependency rules between packages, and libraries that a serving process never loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "headlight": ROOT / "headlight",
    "headlight_service": ROOT / "service/headlight_service",
    "headlight_export": ROOT / "export/headlight_export",
    "headlight_model": ROOT / "model/headlight_model",
    "bench": ROOT / "bench",
    "deploy": ROOT / "deploy",
}
INSTALLED = [name for name in PACKAGES if name.startswith("headlight")]
TRAINING_LIBRARIES = {"torch", "onnx", "onnxscript", "transformers", "safetensors"}

VALUES = tuple(
    f"headlight.{name}"
    for name in (
        *("comparison", "description", "errors", "interface", "results", "span_vectors", "spec"),
    )
)
RUNTIME_VALUES = (
    *("headlight.errors", "headlight.extras", "headlight.results", "headlight.spec"),
    *("headlight.runtime.encode_items", "headlight.runtime.values", "headlight.runtime.bundle"),
)
# Modules that the layers of the service share.
SHARED = tuple(
    f"headlight.{name}"
    for name in (
        *("comparison", "description", "errors", "extras", "results", "span_vectors", "spec"),
    )
)
CONFIG, CORE, FRONTENDS = (f"headlight_service.{room}" for room in ("config", "core", "frontends"))
CONTRACT, GRPC, SECURITY, TELEMETRY = (
    f"{FRONTENDS}.contract",
    f"{FRONTENDS}.grpc",
    "headlight_service.security",
    "headlight_service.telemetry",
)
HTTP = f"{FRONTENDS}.http"
SHARED_BY_FRONTENDS = tuple(
    f"{FRONTENDS}.{name}" for name in ("answer_wait", "failure", "stall_timeout")
)
CODECS = (
    "headlight.pb",
    *(f"headlight.wire.{name}" for name in ("attention_codec", "comparison", "vector_codec")),
)
# Protocol modules and names, which no module of the core may use.
PROTOCOLS = (
    FRONTENDS,
    "headlight.pb",
    "headlight.wire",
    "grpc",
    "grpc_status",
    "grpc_health",
    "google",
)

TRANSPORTS = ("grpc", "grpc_status", "grpc_health", "starlette", "uvicorn")

CORE_TELEMETRY = ("json_logs", "metrics", "request_trace")

# Modules of this repository that each package may import; the longest matching prefix decides.
ALLOWED = {
    "headlight": (
        *VALUES,
        "headlight.archive",
        "headlight.extras",
        "headlight.client",
        "headlight.wire.printable",
    ),
    "headlight.__main__": ("headlight.cli.main",),
    "headlight.interface": VALUES,
    "headlight.cli": ("headlight",),
    "headlight.pb": ("headlight.pb",),
    "headlight.wire": (*VALUES, "headlight.pb", "headlight.wire"),
    "headlight.tls": ("headlight.tls",),
    "headlight.wire.comparison": (*VALUES, "headlight.pb", "headlight.wire"),
    "headlight.client": (
        *VALUES,
        "headlight.pb",
        "headlight.wire",
        "headlight.tls",
        "headlight.client",
    ),
    "headlight.client.calls": (*VALUES, "headlight.pb", "headlight.wire", "headlight.client.calls"),
    # Bulk jobs: over a service, or over a runtime that the caller has opened.
    "headlight.bulk": (*VALUES, "headlight.client", "headlight.wire", "headlight.bulk"),
    # Opens either itself.
    "headlight.ray": (
        *(*VALUES, "headlight.extras", "headlight.bulk"),
        *("headlight.client", "headlight.runtime", "headlight.ray"),
    ),
    "headlight.analysis": (*VALUES, "headlight.wire", "headlight.client", "headlight.analysis"),
    "headlight.web": (*VALUES, "headlight.analysis.terminal_view", "headlight.web"),
    # Inference without a server: plain values, without the client, the wire or the command
    # line.
    "headlight.runtime": (
        "headlight.runtime",
        "headlight.extras",
        *VALUES,
    ),
    # The shape of batches that was measured on this machine is kept in the cache.
    "headlight.runtime.runtime": (
        *("headlight.__version__", "headlight.runtime", "headlight.extras"),
        *VALUES,
    ),
    "headlight.runtime.batch_shape": ("headlight.runtime", "headlight.model_store"),
    "headlight.runtime.bundle": (
        "headlight.runtime.bundle",
        "headlight.errors",
        "headlight.description",
    ),
    "headlight.runtime.tokenization": (*RUNTIME_VALUES, "headlight.runtime.tokenization"),
    "headlight.runtime.vectors": (*RUNTIME_VALUES, "headlight.runtime.vectors"),
    "headlight.runtime.attention": (
        *RUNTIME_VALUES,
        "headlight.runtime.vectors",
        "headlight.runtime.attention",
    ),
    "headlight.runtime.comparison": (
        *(*RUNTIME_VALUES, "headlight.comparison", "headlight.interface.similarity"),
        *(f"headlight.runtime.{room}" for room in ("attention", "tokenization", "vectors")),
        "headlight.runtime.comparison",
    ),
    "headlight.runtime.spans": (
        *RUNTIME_VALUES,
        "headlight.span_vectors",
        *(f"headlight.runtime.{room}" for room in ("spans", "tokenization", "vectors")),
    ),
    "headlight.runtime.providers": (
        *RUNTIME_VALUES,
        "headlight.runtime.attention.graph_selectors",
        "headlight.runtime.providers",
    ),
    "headlight.runtime.engine": (
        *RUNTIME_VALUES,
        *(f"headlight.runtime.{room}" for room in ("attention", "vectors", "providers", "engine")),
    ),
    "headlight.runtime.parity": (
        *RUNTIME_VALUES,
        *(f"headlight.runtime.{room}" for room in ("attention", "engine", "parity")),
    ),
    # `headlight.__version__` alone: the key of an export has it.
    "headlight.model_store": ("headlight.__version__", "headlight.model_store"),
    "headlight_service": (
        *("headlight_service", "headlight.runtime", "headlight.model_store", "headlight.pb"),
        *SHARED,
    ),
    CONFIG: (
        *(
            "headlight.command_parser",
            "headlight.spec",
            "headlight.runtime.providers.provider_choice",
            CONFIG,
        ),
        "headlight.model_store.model_cache",
        *(f"{CORE}.admission.admission_control", f"{TELEMETRY}.json_logs"),
    ),
    CORE: (*SHARED, "headlight.runtime", CORE, *(f"{TELEMETRY}.{name}" for name in CORE_TELEMETRY)),
    # Measures of similarity, and names of a comparison's fields in errors.
    f"{CORE}.evidence": (
        *(*SHARED, "headlight.interface", "headlight.runtime", CORE),
        *(f"{TELEMETRY}.{name}" for name in CORE_TELEMETRY),
    ),
    f"{CORE}.requests": (
        "headlight.comparison",
        "headlight.errors",
        "headlight.span_vectors",
        "headlight.spec",
        "headlight.runtime",
        f"{CORE}.requests",
    ),
    f"{CORE}.admission": (
        *("headlight.errors", "headlight.spec", "headlight.runtime"),
        *(f"{CORE}.admission", f"{CORE}.requests", f"{CONFIG}.options"),
    ),
    f"{CORE}.scheduler": (
        *("headlight.errors", "headlight.spec", "headlight.runtime", f"{CORE}.scheduler"),
        *(f"{CORE}.{name}" for name in ("heartbeat", "timers", "worker_threads")),
        *(f"{TELEMETRY}.{name}" for name in ("json_logs", "request_trace", "spans")),
    ),
    # Modules that frontends of several protocols share.
    FRONTENDS: (*SHARED, CORE, TELEMETRY),
    # What the frontends of headlight.v1 share; no transport.
    CONTRACT: (
        *SHARED,
        *CODECS,
        "headlight.interface.attention_grid",
        "headlight.interface.comparison_arguments",
        "headlight.runtime",
        CORE,
        CONTRACT,
    ),
    GRPC: (
        *SHARED,
        "headlight.pb",
        CORE,
        CONTRACT,
        GRPC,
        *SHARED_BY_FRONTENDS,
        SECURITY,
        TELEMETRY,
    ),
    # Parts that all contracts over gRPC share.
    f"{GRPC}.calls": (
        *("headlight.errors", CORE, f"{GRPC}.calls", f"{GRPC}.transport", TELEMETRY),
        *SHARED_BY_FRONTENDS,
        *(f"{GRPC}.{name}" for name in ("grpc_status", "peer_timeouts")),
    ),
    # Requests of text-embeddings-inference, for its frontends over gRPC and HTTP.
    f"{FRONTENDS}.tei": (
        *("headlight.__version__", "headlight.errors", "headlight.spec", "headlight.results"),
        *("headlight.description", "headlight.runtime", CORE, f"{FRONTENDS}.tei"),
    ),
    f"{GRPC}.tei": (
        *("headlight.description", "headlight.errors", "headlight.results", "headlight.runtime"),
        *(CORE, f"{FRONTENDS}.tei", f"{GRPC}.tei", f"{GRPC}.calls", f"{GRPC}.transport"),
        *(f"{GRPC}.{name}" for name in ("grpc_status", "peer_timeouts")),
        f"{CONTRACT}.answer_encoding",
    ),
    f"{FRONTENDS}.oip": (
        *("headlight.__version__", "headlight.description", "headlight.errors"),
        *(
            "headlight.results",
            "headlight.spec",
            "headlight.runtime",
            CORE,
            f"{FRONTENDS}.oip",
            f"{GRPC}.calls",
            f"{GRPC}.transport",
        ),
        *(f"{GRPC}.{name}" for name in ("grpc_status", "peer_timeouts")),
    ),
    HTTP: (*SHARED, "headlight.runtime", CORE, HTTP, *SHARED_BY_FRONTENDS, SECURITY, TELEMETRY),
    # Numbers as JSON, for every dialect.
    f"{HTTP}.json_answers": (
        *(*SHARED, "headlight.runtime", CORE, HTTP, f"{CONTRACT}.json_answer_forms"),
    ),
    f"{HTTP}.dialects": (
        *(*SHARED, "headlight.runtime", CORE, HTTP, f"{FRONTENDS}.tei", TELEMETRY),
    ),
    f"{HTTP}.dialects.home_page": ("headlight.web.live", HTTP),
    f"{HTTP}.dialects.contract_api": ("headlight.pb", CORE, CONTRACT, HTTP),
    f"{GRPC}.transport": (f"{GRPC}.transport", f"{GRPC}.grpc_status", TELEMETRY),
    SECURITY: (
        "headlight.errors",
        "headlight.tls",
        CONFIG,
        SECURITY,
        TELEMETRY,
        f"{GRPC}.transport.grpc_call",
    ),
    TELEMETRY: (
        *(*SHARED, f"{CONFIG}.command_line", TELEMETRY),
        *(f"{CORE}.admission.shed_error", f"{CORE}.requests", f"{CORE}.scheduler"),
    ),
    "headlight_model": ("headlight_model",),
    "headlight_model.layers": (
        *("headlight_model.config", "headlight_model.masking"),
        *("headlight_model.layers", "headlight_model.positions"),
    ),
    "headlight_model.positions": (
        "headlight_model.config",
        "headlight_model.masking",
        "headlight_model.positions",
    ),
    # Shows the running service, so it calls it as a client.
    "headlight_model.demo": ("headlight_model", "headlight"),
    "headlight_export": (
        *("headlight_export", "headlight_model"),
        *("headlight.runtime", "headlight.extras", "headlight.errors", "headlight.spec"),
        *("headlight.description", "headlight.model_store", "headlight.command_parser"),
        "headlight.span_vectors",
    ),
    "bench": (*PACKAGES,),
    # Manifests, rules and dashboard are compared with the service's options and metrics.
    "deploy": ("deploy", "headlight_service", "headlight.runtime", "headlight.spec"),
}

# Imports every module of a package except entry points, which would run; prints those and all
# modules loaded then.
WALK = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [sys.argv[1]]
found = pkgutil.walk_packages(package.__path__, sys.argv[1] + ".")
names += [module.name for module in found if not module.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(sys.modules)]))
"""
IMPORT = (
    "import json, sys, importlib; importlib.import_module(sys.argv[1]); print(json.dumps([[], "
    "sorted(sys.modules)]))"
)


def loaded_by(program: str, package: str) -> tuple[list[str], set[str]]:
    """Run `program` in a fresh interpreter; return its modules, and every module it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", program, package],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    walked, loaded = json.loads(done.stdout)
    return walked, set(loaded)


def python_files(package: str) -> list[Path]:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files, f"no Python in {PACKAGES[package]}: the architecture has lost a package"
    return files


def module_name(package: str, path: Path) -> str:
    parts = (package, *path.relative_to(PACKAGES[package]).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Return the imports of a file, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own_imports(path: Path) -> set[str]:
    """Return the imports that are of this repository."""
    return {
        name
        for name in imports(path)
        if name.split(".")[0] in (*PACKAGES, "service", "export", "model", "tests")
    }


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def allowed_for(module: str) -> tuple[str, ...]:
    return ALLOWED[max((prefix for prefix in ALLOWED if under(module, prefix)), key=len)]


def test_importing_the_client_is_light() -> None:
    _, loaded = loaded_by(IMPORT, "headlight")
    assert (
        loaded
        & (TRAINING_LIBRARIES | {"onnxruntime", "tokenizers", "matplotlib"} | set(INSTALLED[1:]))
        == set()
    )


@pytest.mark.parametrize("package", ["headlight", "headlight_service"])
def test_no_serving_module_loads_a_training_library(package: str) -> None:
    walked, loaded = loaded_by(WALK, package)
    expected = {
        module_name(package, path) for path in python_files(package) if path.name != "__main__.py"
    }
    assert set(walked) == expected, (
        "a folder without __init__.py hides its modules from the installed package"
    )
    assert loaded & TRAINING_LIBRARIES == set()
    assert "onnxruntime" in loaded  # otherwise the walk has missed the relevant modules


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_dependency_rules(package: str) -> None:
    wrong = {
        f"{module_name(package, path)} -> {name}"
        for path in python_files(package)
        for name in own_imports(path)
        if not any(under(name, prefix) for prefix in allowed_for(module_name(package, path)))
    }
    assert wrong == set()


def test_dependency_rules_name_modules_that_exist() -> None:
    modules = {module_name(package, path) for package in PACKAGES for path in python_files(package)}
    allowed = {name for names in ALLOWED.values() for name in names}
    no_modules = {"headlight.__version__", "deploy"}  # a value; a folder without __init__.py
    assert {*ALLOWED, *allowed} - modules == no_modules


def test_the_core_knows_no_protocol() -> None:
    """Neither by name, at any depth of its code and for types alone, nor by its imports."""
    files = [
        path
        for path in python_files("headlight_service")
        if under(module_name("headlight_service", path), CORE)
    ]
    named = {
        f"{path.name} -> {name}" for path in files for name in imports(path) if of_a_protocol(name)
    }
    assert named == set()
    walked, loaded = loaded_by(WALK, CORE)
    assert len(walked) == len(files)
    # ONNX Runtime brings libraries of Google's.
    assert {name for name in loaded if of_a_protocol(name) and not under(name, "google")} == set()


def test_the_shared_frontend_of_the_contract_knows_no_transport() -> None:
    files = [
        path
        for path in python_files("headlight_service")
        if under(module_name("headlight_service", path), CONTRACT)
    ]
    named = {
        f"{path.name} -> {name}"
        for path in files
        for name in imports(path)
        if name.split(".")[0] in TRANSPORTS
    }
    assert len(files) > 4
    assert named == set()


def of_a_protocol(module: str) -> bool:
    return any(under(module, prefix) for prefix in PROTOCOLS)


def test_the_contract_folder_has_no_python() -> None:
    """An importable `proto` would shadow the library of that name."""
    assert (ROOT / "proto/headlight/v1/headlight.proto").is_file()
    assert list((ROOT / "proto").rglob("*.py*")) == []


def test_there_is_one_copy_of_the_stubs() -> None:
    """Two in one process clash."""
    copies = {path.parent for folder in PACKAGES.values() for path in folder.rglob("*_pb2*.py")}
    assert copies == {ROOT / "headlight/pb"}


def test_every_package_has_a_dependency_rule() -> None:
    rooms = {
        module_name(package, path)
        for package in ("headlight", "headlight_service")
        for path in python_files(package)
        if path.name == "__init__.py"
    }
    # may import all of the library
    rooms_of_commands = ("attention", "compare", "doctor", "embed", "tables")
    shared = {f"headlight.cli.{name}" for name in rooms_of_commands}
    shared |= {"headlight_service.app"}  # and all of the service
    assert rooms - set(ALLOWED) == shared


def test_only_the_command_line_imports_upper_layers() -> None:
    """`headlight serve` and `headlight export` load their package by name, when they are called."""
    named = {
        module_name("headlight", path)
        for path in python_files("headlight")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and str(node.value).split(".")[0] in INSTALLED[1:]
        and " " not in str(node.value)
    }
    assert named == {"headlight.cli.main", "headlight.model_store.model_source"}


def test_the_top_of_the_service_has_only_its_entry_point() -> None:
    assert {path.name for path in PACKAGES["headlight_service"].glob("*.py")} == {
        "__init__.py",
        "__main__.py",
    }


def test_there_are_no_import_cycles() -> None:
    """Including imports for types alone."""
    modules = {
        module_name(package, path): path for package in INSTALLED for path in python_files(package)
    }
    graph = {
        module: {name if name in modules else name.rpartition(".")[0] for name in own_imports(path)}
        & set(modules)
        for module, path in modules.items()
        if path.name != "__init__.py"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_module_has_two_names() -> None:
    """`service.headlight_service` would be a second copy of every class and of every metric."""
    folders = {path.parent.name for name, path in PACKAGES.items() if path.parent != ROOT}
    files = [
        path
        for path in ROOT.rglob("*.py")
        if not set(path.relative_to(ROOT).parts) & {"build", ".git"}
    ]
    wrong = {
        f"{path.relative_to(ROOT)} -> {name}"
        for path in files
        if not any(part.startswith(".venv") for part in path.relative_to(ROOT).parts)
        for name in own_imports(path)
        if name.split(".")[0] in folders
    }
    assert wrong == set()
