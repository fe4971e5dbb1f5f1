"""Jobs with environments of their own, and rarer ones: `.venv/bin/nox -l` lists them.

`.venv/bin/nox -s NAME -- OPTIONS` runs one. Environments lie in `.nox`, and are kept until their
list of packages changes. Most add packages to those of `.venv`, PyTorch above all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent
PYTHON = ROOT / ".venv/bin/python"
BUNDLE = "build/bundles/docs-rope"
SERVING = "build/serving"
IMAGE = ROOT / "deploy/image"
TOOLS = ".nox/release-tools/bin"
TORCH = ".nox/peer-torch/bin"
CHECKPOINTS = "model/headlight_model/checkpoints"
CONTRACT, ADMIN = "proto/headlight/v1/headlight.proto", "proto/headlight/admin/v1/admin.proto"
# Public contracts, which have no stubs, because the default pool of protobuf may hold another copy
# of them: the .proto without its suffix, and the committed descriptors and .pyi without theirs.
FRONTENDS = "service/headlight_service/frontends"
PUBLIC = {
    "inference/inference": f"{FRONTENDS}/oip/inference_messages",
    "tei/v1/tei": f"{FRONTENDS}/grpc/tei/tei_messages",
}
OPENAPI = f"{FRONTENDS}/http/openapi.json"
# By the name of an environment: programs that Headlight is measured beside.
PEERS = {
    "torch": "tests/real/requirements.txt",
    "openvino": "bench/peers/openvino.txt",
    "onnx": "bench/peers/onnx.txt",
    "infinity": "bench/peers/infinity.txt",
    "fastembed": "bench/peers/fastembed.txt",
    "vllm": "bench/peers/vllm.txt",
}

nox.options.sessions = []
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
# ONNX Runtime's Linux builds may send usage reports; this disables them.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"


def alone(name: str) -> Callable[..., Any]:
    """Return a decorator of a session that needs no environment but `.venv`."""
    return nox.session(name=name, venv_backend="none")


def install(session: nox.Session, *arguments: str) -> None:
    """Install with pip, by these arguments, unless that was done with the same files before."""
    files = [Path(each).read_bytes() for each in arguments if Path(each).is_file()]
    digest = hashlib.sha256(b"".join(files)).hexdigest()
    name = hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]
    stamp = Path(session.virtualenv.location, f".installed-{name}")
    if not stamp.is_file() or stamp.read_text(encoding="ascii") != digest:
        session.run("python", "-m", "pip", "install", "--quiet", *arguments)
        stamp.write_text(digest, encoding="ascii")


def layered(session: nox.Session, requirements: str, *arguments: str) -> None:
    """Add packages to those of `.venv`; the list has all of them, for pip resolves nothing."""
    site = session.run(
        str(PYTHON),
        *("-c", 'import sysconfig; print(sysconfig.get_path("purelib"))'),
        external=True,
        silent=True,
        stderr=None,
    )
    session.run("python", "deploy/checkout.py", "link", "--see", str(site).strip())
    install(session, "--no-deps", *arguments, "--requirement", requirements)


def make(session: nox.Session, *targets: str) -> None:
    """Run `make`, as for bundles: it exports only if a source is newer."""
    session.run("make", "--silent", *targets, external=True)


def bundle(session: nox.Session) -> None:
    """Export the shipped model."""
    make(session, f"{BUNDLE}/manifest.json")


def require(session: nox.Session, *commands: str) -> None:
    """Install Debian packages of commands that are missing."""
    session.run("tests/system/require.sh", *commands, external=True)


def project(session: nox.Session, *arguments: str) -> None:
    """Run the Python of `.venv`."""
    session.run(str(PYTHON), *arguments, external=True)


def spread(session: nox.Session, *arguments: str, python: str = str(PYTHON)) -> None:
    """Run tests on all cores: each process loads PyTorch, so four at most, with one thread each."""
    session.run(
        *(python, "-m", "pytest", "--numprocesses=auto", "--maxprocesses=4", "--dist=worksteal"),
        *arguments,
        *session.posargs,
        env={"OMP_NUM_THREADS": "1"},
        external=True,
    )


# Tests


@alone("test-export")
def test_export(session: nox.Session) -> None:
    """Test the exporter."""
    spread(session, "tests/export")


@alone("test-training")
def test_training(session: nox.Session) -> None:
    """Test training and evaluation of the shipped models, and the lab."""
    spread(session, "tests/model/train", "tests/model/evaluate", "tests/lab")


@nox.session(venv_backend="none", requires=["release-tools"])
def dependencies(session: nox.Session) -> None:
    """Install README's line with the newest and the oldest dependencies, and each extra's wheel."""
    bundle(session)
    at_once = ("--numprocesses=2", "--dist=loadgroup", "--timeout=1200", "-rP")
    project(session, "-m", "pytest", "tests/dependencies", *at_once)


@alone("install-check")
def install_check(session: nox.Session) -> None:
    """Install the wheel into an empty environment; run README's lines and the examples of --help.

    `-- --report bench/results/install.md` writes the report.
    """
    require(session, "openssl")
    bundle(session)
    project(session, "-m", "pytest", "tests/install", "--timeout=1200", *session.posargs)


@nox.session(python=["3.12", "3.13"])
def pythons(session: nox.Session) -> None:
    """Serve, call and embed tables on newer Pythons, which must be on the PATH: 1.2 GB."""
    bundle(session)
    session.run("python", "-m", "pip", "install", "--quiet", ".[serve,parquet,openvino]")
    project(session, "-m", "pytest", "tests/pythons", "--timeout=600", "--programs", session.bin)


@nox.session
def families(session: nox.Session) -> None:
    """Test imported models against transformers and sentence-transformers."""
    layered(session, "tests/families/requirements.txt")
    spread(session, "tests/families", "--timeout=600", python="python")


@nox.session(name="families-table")
def families_table(session: nox.Session) -> None:
    """Measure the same as a table of distances; writes bench/results/families.md."""
    layered(session, "tests/families/requirements.txt")
    session.run("python", "-W", "ignore", "-m", "tests.families.table")


@nox.session(name="real-model", venv_backend="none", requires=["peer-torch"])
def real_model(session: nox.Session) -> None:
    """Export and serve all-MiniLM-L6-v2, and compare it with sentence-transformers.

    `-- --report bench/results/real-model.md` writes the report.
    """
    session.run(
        *(f"{TORCH}/python", "-m", "pytest", "tests/real", "--timeout=1200", *session.posargs),
        env={"OMP_NUM_THREADS": "1"},
        external=True,
    )


def clients(session: nox.Session, name: str, *options: str) -> None:
    """Test a frontend by other people's clients; their pages in docs/clients are run as written."""
    layered(session, f"tests/clients/{name}/requirements.txt")
    bundle(session)
    session.run("python", "-m", "pytest", f"tests/clients/{name}", "--timeout=300", *options)


@nox.session(name="clients-http", tags=["clients"])
def clients_http(session: nox.Session) -> None:
    """Test the HTTP frontend with openai."""
    clients(session, "http")


@nox.session(name="clients-oip", tags=["clients"])
def clients_oip(session: nox.Session) -> None:
    """Test the Open Inference Protocol with Triton's own client."""
    clients(session, "oip")


@nox.session(name="clients-tei", tags=["clients"])
def clients_tei(session: nox.Session) -> None:
    """Test text-embeddings-inference's interface with huggingface_hub, Haystack and its stubs."""
    clients(session, "tei")


@nox.session(name="clients-stores", tags=["clients"])
def clients_stores(session: nox.Session) -> None:
    """Test what vector stores take: docs/guides/stores.md, with Qdrant in its local mode."""
    clients(session, "stores")


@alone("conformance")
def conformance(session: nox.Session) -> None:
    """Check Headlight and infinity by tests/conformance; writes docs/conformance.md.

    infinity is among them if `nox -s peer-infinity serving-model` was run. `-- --page`: the page.
    """
    make(session, *(f"build/bundles/docs-{each}/manifest.json" for each in ("rope", "rerank")))
    project(session, "-m", "tests.conformance.record", *session.posargs)


@nox.session(name="clients-languages", venv_backend="none", tags=["clients"])
def clients_languages(session: nox.Session) -> None:
    """Compile and run the examples in Go, Java and Node; installs Debian's packages for them."""
    bundle(session)
    project(session, "-m", "pytest", "tests/clients/languages", "--timeout=300", "-rs")


@nox.session(name="clients-more")
def clients_more(session: nox.Session) -> None:
    """Test with LangChain, LlamaIndex, LiteLLM, Chroma, KServe and openai for Node: 0.5 GB.

    It writes bench/results/clients.md.
    """
    require(session, "node", "npm")
    # Most of these classes have no way to close their connections.
    quiet = ("-W", "ignore::ResourceWarning")
    clients(session, "more", *quiet, "--report", "bench/results/clients.md")


@nox.session
def adapters(session: nox.Session) -> None:
    """Test the adapters against BertViz, TransformerLens, LIT and Hugging Face: 0.5 GB."""
    layered(session, "tests/adapters/requirements.txt")
    session.run("python", "-m", "pytest", "tests/adapters")


@nox.session
def bulk(session: nox.Session) -> None:
    """Test bulk jobs with real Ray, an object store and kills: half an hour, 0.5 GB.

    `-- --rows 1000`: fewer; `-- --report bench/results/bulk-faults.json` writes the report.
    """
    layered(session, "tests/bulk/requirements.txt")
    bundle(session)
    session.run("python", "-m", "pytest", "tests/bulk", "--timeout=3600", *session.posargs)


@alone("bench-check")
def bench_check(session: nox.Session) -> None:
    """Run the benchmarks in small: they work, and report all criteria."""
    make(session, "export")
    project(session, "-m", "pytest", "tests/bench/runs", "--timeout=600", *session.posargs)


@nox.session(name="deploy-check")
def deploy_check(session: nox.Session) -> None:
    """Check everything under deploy/ that needs no cluster; needs kubectl 1.31 or later."""
    require(session, "kubectl", "node", "npm", "promtool")
    layered(session, "deploy/check/requirements.txt")
    bundle(session)
    session.run("python", "-m", "deploy.check")
    session.run("python", "-m", "pytest", "tests/deploy", "--timeout=600")


@alone("soak")
def soak(session: nox.Session) -> None:
    """Run load with faults, replaced models and mutated traffic for long: 80 minutes.

    It writes bench/results/soak.md. `-- --only F14a --times 100 --page
    bench/results/soak-messages.md`: 10 million mutated messages, 100 minutes.
    """
    bundle(session)
    project(session, "-m", "tests.chaos", "--long", *session.posargs)


@alone("faults")
def faults(session: nox.Session) -> None:
    """Inject every fault of the matrix, 20 minutes; writes docs/reliability.md.

    The page also lists a fault that breaks a promise; the session then fails.
    """
    require(session, "cc", "nginx", "openssl")
    make(session, "export")
    project(session, "-m", "tests.chaos", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Run the notebooks of docs/notebooks in place and keep their outputs (`-- search`: one)."""
    layered(session, "docs/notebooks/requirements.txt")
    make(session, *(f"build/bundles/docs-{each}/manifest.json" for each in ("rope", "rerank")))
    session.run("python", "-m", "docs.notebooks.execute", *session.posargs)


# What is generated


def protoc(session: nox.Session, *arguments: str) -> None:
    """Run protoc. The oldest version whose stubs work with protobuf 6 and 7."""
    install(session, "grpcio-tools==1.76.0")
    session.run("python", "-m", "grpc_tools.protoc", *arguments)


@nox.session
def proto(session: nox.Session) -> None:
    """Generate headlight/pb, descriptors of public contracts and OpenAPI, which are committed."""
    for source, target in generated(session):
        shutil.copyfile(source, target)


@nox.session(name="proto-check")
def proto_check(session: nox.Session) -> None:
    """Check that what `nox -s proto` generates is committed as it is."""
    for source, target in generated(session):
        if source.read_bytes() != Path(target).read_bytes():
            session.error(f"{target} is not what the contracts generate: run `make proto`")


def generated(session: nox.Session) -> list[tuple[Path, str]]:
    """Return the files that the contracts generate, each with its place in the repository."""
    made = ROOT / "build/proto"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    # A virtual path makes the stubs import each other as headlight.pb, without patching.
    outputs = [f"--{kind}_out={made}" for kind in ("python", "pyi", "grpc_python")]
    for each in (CONTRACT, ADMIN):
        protoc(session, f"-Iheadlight/pb={Path(each).parent}", *outputs, each)
    files = [(each, f"headlight/pb/{each.name}") for each in (made / "headlight/pb").iterdir()]
    for name, place in PUBLIC.items():
        into = made / Path(name).name
        kinds = (f"--descriptor_set_out={into}.binpb", f"--pyi_out={made}")
        protoc(session, "-Iproto", "--include_imports", *kinds, f"proto/{name}.proto")
        (made / f"{name}_pb2.pyi").rename(f"{into}.pyi")
        files += [(Path(f"{into}.{kind}"), f"{place}.{kind}") for kind in ("binpb", "pyi")]
    command = ("python", "-m", "docs.site.openapi", described(session))
    document = session.run(*command, silent=True, stderr=None)
    (made / "openapi.json").write_text(str(document), encoding="utf-8")
    return [
        *files,
        (made / "openapi.json", OPENAPI),
        (ROOT / CONTRACT, f"headlight/{CONTRACT}"),
    ]


def described(session: nox.Session) -> str:
    """Return the file of the contract's descriptors with its comments."""
    out = "build/contract.binpb"
    folder = str(Path(CONTRACT).parent)
    (ROOT / "build").mkdir(exist_ok=True)
    protoc(session, f"-I{folder}", "--include_source_info", f"--descriptor_set_out={out}", CONTRACT)
    return out


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site into build/site; a broken link fails.

    Zensical checks pages and headings; a test checks links to files, and the navigation.
    """
    shutil.rmtree(ROOT / "build/site", ignore_errors=True)
    project(session, "-m", "pytest", "-q", "tests/docs/test_site.py")
    project(session, "-m", "docs.site", "build")
    install(session, "--no-deps", "--requirement", "docs/requirements.txt")
    session.run("zensical", "build", "--strict", "--clean", "--config-file", "build/zensical.toml")
    session.log("read it: python3 -m http.server --bind 127.0.0.1 --directory build/site")


# Models and research


@alone("train")
def train(session: nox.Session) -> None:
    """Train docs-rope again: `-- --stage 1`, then `-- --stage 2 --resume`; `-- docs-sinusoidal`.

    `nox -s teacher` first makes the bundle that it learns from.
    """
    words = session.posargs
    name, *options = words if words and not words[0].startswith("-") else ("docs-rope", *words)
    out = f"{CHECKPOINTS}/{name}"
    positions = name.removeprefix("docs-")
    project(
        session, "-m", "headlight_model.train", "--positions", positions, "--out", out, *options
    )


@alone("train-reranker")
def train_reranker(session: nox.Session) -> None:
    """Train docs-rerank again, from docs-rope: an hour; `-- --resume` goes on."""
    start, out = f"{CHECKPOINTS}/docs-rope", f"{CHECKPOINTS}/docs-rerank"
    command = ("-m", "headlight_model.train.reranker", "--start", start, "--out", out)
    project(session, *command, *session.posargs)


@nox.session(venv_backend="none", requires=["peer-torch"])
def teacher(session: nox.Session) -> None:
    """Make the bundle of all-MiniLM-L6-v2 that the shipped models learn from: build/teacher."""
    folder = "build/teacher"
    session.run(f"{TORCH}/python", "-m", "bench.minilm", folder, external=True)
    variants = ("--provider", "openvino", "--precision", "bf16")
    into = f"{folder}/all-MiniLM-L6-v2"
    project(session, "-m", "headlight", "export", f"{folder}/model", "--out", into, *variants)


@alone("evaluate")
def evaluate(session: nox.Session) -> None:
    """Measure the shipped models on what was held out; writes bench/results/evaluation.md.

    `-- --previous FOLDER`: beside an earlier docs-rope; `-- --teacher BUNDLE`: beside its teacher.
    """
    models = [f"{CHECKPOINTS}/docs-{each}" for each in ("rope", "sinusoidal")]
    report = ("--out", "bench/results/evaluation.md")
    project(session, "-m", "headlight_model.evaluate", *models, *report, *session.posargs)


@alone("evaluate-reranker")
def evaluate_reranker(session: nox.Session) -> None:
    """Measure what docs-rerank gains; writes bench/results/reranking.md: minutes."""
    models = [f"{CHECKPOINTS}/docs-{each}" for each in ("rope", "rerank")]
    report = ("--out", "bench/results/reranking.md")
    command = ("-m", "headlight_model.evaluate.reranking", *models, *report)
    project(session, *command, *session.posargs)


@alone("lab")
def lab(session: nox.Session) -> None:
    """Train small models with each scheme of positions; writes docs/positions.md: two hours.

    `-- --quick` takes a minute, and changes no committed file; `-- --experiment reverse` trains one
    comparison, in minutes. The shipped checkpoint is the one that the page describes.
    """
    project(session, "-m", "lab", *session.posargs)
    if not {"--quick", "--experiment", "--draw"} & set(session.posargs):
        trained, kept = (
            ROOT / "build/lab/reverse-16-learned-seed0",
            "lab/checkpoints/reverse-learned",
        )
        shutil.copytree(trained, kept, dirs_exist_ok=True)


# Benchmarks, on an idle machine


def peer_session(name: str) -> None:
    """Define the session that installs one peer."""

    @nox.session(name=f"peer-{name}")
    def install_peer(session: nox.Session) -> None:
        """Install a program that Headlight is measured beside."""
        layered(session, PEERS[name])


for each_peer in PEERS:
    peer_session(each_peer)


@nox.session(name="serving-model", venv_backend="none", requires=["peer-torch"])
def serving_model(session: nox.Session) -> None:
    """Make the bundle of all-MiniLM-L6-v2, which is measured."""
    if not (ROOT / SERVING / "model/modules.json").is_file():
        session.run(f"{TORCH}/python", "-m", "bench.minilm", SERVING, external=True)
    variants = ("--provider", "openvino", "--precision", "int8")
    into = f"{SERVING}/bundle"
    project(session, "-m", "headlight", "export", f"{SERVING}/model", "--out", into, *variants)


@nox.session(venv_backend="none", requires=["serving-model"])
def bench(session: nox.Session) -> None:
    """Measure attention in each form, precisions, the front, and one call by step."""
    bundle(session)
    for name in ("attention", "attention_served", "precision", "front", "one_call"):
        project(session, "-m", f"bench.{name}")


@nox.session(
    venv_backend="none",
    requires=["serving-model", *(f"peer-{each}" for each in PEERS if each != "vllm")],
)
def serving(session: nox.Session) -> None:
    """Measure Headlight beside its peers; writes bench/results/serving.md. Options: as its own.

    vLLM is among them if `nox -s peer-vllm` has installed it.
    """
    project(session, "-m", "bench.serving", *session.posargs)
    for name in () if session.posargs else ("engine", "doors"):
        project(session, "-m", f"bench.{name}")


@nox.session(name="bulk-bench", requires=["serving-model", "peer-fastembed"])
def bulk_bench(session: nox.Session) -> None:
    """Measure bulk jobs on Parquet beside their peers; writes bench/results/bulk.md."""
    layered(session, "tests/bulk/requirements.txt")
    project(session, "-m", "bench.bulk", *session.posargs)


@nox.session(
    name="rerank-bench",
    venv_backend="none",
    requires=["serving-model", *(f"peer-{each}" for each in ("onnx", "openvino", "infinity"))],
)
def rerank_bench(session: nox.Session) -> None:
    """Measure reranking beside its peers; writes bench/results/rerank.md."""
    project(session, "-m", "bench.rerank", *session.posargs)


@nox.session(
    name="vectors-bench",
    venv_backend="none",
    requires=["serving-model", *(f"peer-{each}" for each in ("onnx", "fastembed"))],
)
def vectors_bench(session: nox.Session) -> None:
    """Measure sparse and many vectors beside their peers; writes bench/results/vectors.md."""
    project(session, "-m", "bench.vectors", *session.posargs)


@nox.session(name="evaluate-evidence", venv_backend="none", requires=["serving-model"])
def evaluate_evidence(session: nox.Session) -> None:
    """Measure what evidence and span vectors find and cost; writes bench/results/evidence.md.

    `-- --parts planted deletion chunking cost`: some of these.
    """
    bundle(session)
    bundles = ("--bundle", BUNDLE, f"{SERVING}/bundle")
    project(session, "-m", "bench.evidence", *bundles, *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Install ONNX Runtime for CUDA, some gigabytes: for `make run GPU=1` and gpu-bench."""
    exact = ("--require-hashes", "--ignore-installed", "--only-binary", ":all:")
    layered(session, str(IMAGE / "requirements-gpu.txt"), *exact)


@nox.session(name="gpu-bench", venv_backend="none", requires=["gpu"])
def gpu_bench(session: nox.Session) -> None:
    """Measure parity and speed on a GPU (needs PyTorch for CUDA); writes bench/results/gpu.md."""
    for step in (["--prepare"], []):
        session.run(".nox/gpu/bin/python", "-m", "bench.gpu", *step, external=True)


# Releases


@nox.session(name="release-tools")
def release_tools(session: nox.Session) -> None:
    """Install uv, twine, pip-audit and cyclonedx-bom, by digest."""
    exact = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
    install(session, *exact, "--requirement", str(IMAGE / "tools.txt"))


def with_tools(name: str) -> Callable[..., Any]:
    """Return a decorator of a session that needs the tools of a release beside `.venv`."""
    return nox.session(name=name, venv_backend="none", requires=["release-tools"])


@with_tools("dist")
def dist(session: nox.Session) -> None:
    """Make wheel, source archive, notes, images, SBOMs and SHA256SUMS in dist/, and try them.

    Nothing is published. `-- cpu export`: the images of these variants, by default of cpu. Needs
    root, for buildah; BASE=debian:12-slim@sha256:... names the base of a release.
    """
    require(session, "buildah", "debootstrap")
    bundle(session)
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    project(session, "-m", "deploy.distribution", "dist", "--bundle", BUNDLE)
    archives = [str(each) for each in out.glob("headlight_serving-*")]
    session.run(f"{TOOLS}/twine", "check", "--strict", *archives, external=True)
    [wheel] = out.glob("*.whl")
    version = wheel.name.split("-")[1]
    for variant in session.posargs or ["cpu"]:
        name = out / f"headlight-{version}-{variant}"
        bill_of_materials(session, variant, f"{name}.cdx.json")
        session.run(str(IMAGE / "build.sh"), variant, f"{name}.oci.tar", external=True)
    project(session, "-m", "deploy.verify_release", "dist", "--write")
    project(session, "-m", "pytest", "tests/install", "--timeout=1200", "--wheel", str(wheel))


@nox.session(name="release-check", venv_backend="none", requires=["release-tools", "proto-check"])
def release_check(session: nox.Session) -> None:
    """Check versions, digests, licences and known vulnerabilities before a release: network."""
    session.run(f"{TOOLS}/python", "-m", "deploy.image.release", external=True)


@with_tools("image-check")
def image_check(session: nox.Session) -> None:
    """Install the image's content into an empty folder and serve from it as another user."""
    bundle(session)
    project(session, "-m", "pytest", "tests/image", "--timeout=1200")


@alone("image-try")
def image_try(session: nox.Session) -> None:
    """Build the CPU image with buildah on a base by debootstrap, and serve: root, Debian.

    `-- export`: also the variant `export`, which fills a volume with a model by its name.
    """
    bundle(session)
    session.run(str(IMAGE / "try.sh"), str(PYTHON), BUNDLE, *session.posargs, external=True)


@with_tools("lock")
def lock(session: nox.Session) -> None:
    """Resolve the image's packages again, with digests, into deploy/image/*.txt."""
    session.run(str(IMAGE / "lock.sh"), f"{TOOLS}/uv", external=True)


@with_tools("sbom")
def sbom(session: nox.Session) -> None:
    """List the packages of the CPU image as CycloneDX; writes build/sbom-cpu.cdx.json."""
    bill_of_materials(session, "cpu", "build/sbom-cpu.cdx.json")


def bill_of_materials(session: nox.Session, variant: str, out: str) -> None:
    """Install the content of an image variant, and list its packages."""
    into = ROOT / "build/image" / variant
    shutil.rmtree(into, ignore_errors=True)
    pip = {"PIP": f"{PYTHON} -m pip"}
    session.run(str(IMAGE / "install.sh"), variant, str(into), env=pip, external=True)
    sbom = (str(IMAGE / "sbom.sh"), f"{TOOLS}/cyclonedx-py", str(into / "venv/bin/python"), out)
    session.run(*sbom, external=True)
