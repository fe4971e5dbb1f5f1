"""Every option of the service, by the groups of --help."""

# ruff: noqa: RUF009  # `option` is dataclasses.field

from __future__ import annotations

import dataclasses
from pathlib import Path

from headlight.runtime.providers.provider_choice import PRECISIONS, PROVIDERS
from headlight.spec import (
    EMPTY_TEXTS,
    SPECIAL_TOKENS,
    TRUNCATE,
    EmptyTexts,
    SpecialTokens,
    Truncate,
)
from headlight_service.config.option_types import (
    BYTES,
    COUNT,
    MESSAGE_BYTES,
    SECONDS,
    THREADS,
    Address,
    address,
    address_or_off,
    between,
    choice_option,
    digest,
    endpoint,
    flag,
    host_name,
    lengths,
    model_names,
    option,
    origins,
    whole,
)
from headlight_service.telemetry.json_logs import FORMATS, LEVELS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The models that are served, and their export."""

    model: tuple[str, ...] = option(
        (),
        lambda text: (text,),
        (
            "a bundle, a model's folder or a Hub id, as org/name; what is no bundle is exported "
            "once, into a cache (default: the shipped model); of several, the first answers "
            "requests that name none"
        ),
        bare=True,
    )
    models: Path | None = option(
        None,
        Path,
        "a TOML file of several models, in place of MODEL; see docs/serving/several-models.md",
        metavar="FILE",
    )
    watch_models: float | None = option(
        None,
        between(0.1, 86400),
        (
            "look so often whether --models or the files of a model have changed, and replace "
            "what did; SIGHUP always does (default: never)"
        ),
        metavar="SECONDS",
    )
    models_root: Path | None = option(
        None,
        Path,
        "folder whose bundles `headlight admin load` may name, besides the given models",
        metavar="DIR",
    )
    revision: str | None = option(
        None, str, "branch, tag or commit of a Hub id (default: main)", metavar="NAME"
    )
    pooling: str | None = option(
        None,
        str,
        "for the export of a model that does not name its pooling: mean, cls, max, last, ...",
        metavar="NAME",
    )
    max_length: int | None = option(
        None,
        COUNT,
        "for the export: tokens of the longest text (default: as the model says)",
        metavar="TOKENS",
    )
    served_model_name: tuple[str, ...] = option(
        (),
        model_names,
        (
            "further names of the model, with commas between them; answers to other tools have the "
            "first (default: the bundle's name, the Hub id and its last part, which always work)"
        ),
        metavar="NAME,...",
    )
    any_model_name: bool = option(
        False,
        flag,
        "HTTP requests of other tools may name any model; else an unknown name is a 404",
    )
    bundle: Path | None = option(None, Path, "a bundle's folder, in place of MODEL", metavar="DIR")
    bundle_sha256: str | None = option(
        None,
        digest,
        "digest that the bundle's manifest must have; set it if others can write the folder",
        metavar="DIGEST",
    )
    check: bool = option(
        False, flag, "check each bundle, run its golden inputs, print a line and exit"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputationOptions:
    """Execution provider, precision and threads."""

    provider: str = choice_option(
        "auto",
        (
            "execution provider; auto: cuda if onnxruntime-gpu is installed and there is a GPU, "
            "else cpu; openvino: has bf16 on CPUs with AVX512-BF16 or AMX"
        ),
        *("auto", *PROVIDERS),
    )
    precision: str = choice_option(
        "fp32",
        (
            "precision of the computation, if the bundle has graphs for it; use one for all nodes "
            "that fill one index"
        ),
        *PRECISIONS,
    )
    attention: str = choice_option(
        "on", "off: serve vectors alone, and save the memory of the other graph", "on", "off"
    )
    threads: int | None = option(
        None,
        THREADS,
        "threads per batch (default: CPUs / streams); more than 1 helps with few, long texts",
    )
    streams: int | None = option(
        None,
        THREADS,
        (
            "batches at once (default: one per CPU, at most 8; cuda: 1); for a moment there may be "
            "twice as many, because running bulk batches end beside interactive ones"
        ),
    )
    wide: str = choice_option(
        "auto",
        (
            "whether a lone interactive batch gets all threads: lower latency, for second copies "
            "of the weights in memory; auto: on from 4 threads (openvino: 2); with fewer, a copy "
            "of at most 96 MiB, else the session that returns attention"
        ),
        *("auto", "on", "off"),
    )
    warm_up_lengths: tuple[int, ...] = option(
        (16, 64, 256),
        lengths,
        "lengths in tokens to run before serving, so that no request waits for a first run",
    )
    gpu_device: int = option(
        0, whole(0, (1 << 31) - 1), "for provider cuda: index of the GPU", metavar="INDEX"
    )
    gpu_memory_bytes: int | None = option(
        None,
        whole(1 << 20),
        (
            "for provider cuda: GPU memory for each graph (default: no limit); there are two "
            "graphs, or one with --attention off"
        ),
    )
    gpu_graphs: str = choice_option(
        "off",
        (
            "for provider cuda: on: record vectors of up to 8 texts of up to 128 tokens as CUDA "
            "graphs, and replay them; not tried on a GPU yet"
        ),
        *("on", "off"),
    )


HOST_PORT = "HOST:PORT"
API = Address("127.0.0.1", 8000)  # recognised by identity: a given address is another object


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressOptions:
    """Addresses to listen on, and the age of connections."""

    grpc: Address = option(
        Address("127.0.0.1", 50051),
        address,
        "address of gRPC; 0.0.0.0 or [::] as HOST to be reached from other machines",
        metavar=HOST_PORT,
    )
    metrics: Address = option(
        Address("127.0.0.1", 8080),
        address,
        "address of /metrics, /livez and /readyz; HOST as for --grpc",
        metavar=HOST_PORT,
        was="http",
    )
    api: Address | None = option(
        API,
        address_or_off,
        (
            "address of the HTTP APIs (OpenAI's and others') and of the page, with the TLS, tokens "
            "and quotas of --grpc; HOST as for --grpc; off: none"
        ),
        metavar="HOST:PORT|off",
        was="rest",
    )
    api_host: str | None = option(
        None,
        host_name,
        (
            "name by which clients may call --api and --metrics on a loopback address, besides "
            "localhost; other names are refused there, because a web page may have rebound them"
        ),
        metavar="NAME",
        was="rest_host",
    )
    cors_origins: tuple[str, ...] = option(
        (),
        origins,
        (
            "origins whose web pages may call --api from a browser (CORS), with commas between "
            "them, as https://app.example; *: all (default: none but its own page)"
        ),
        metavar="ORIGIN,...",
    )
    page: str = choice_option(
        "on", "a page that shows attention in a browser, at / of --api", "on", "off"
    )
    health: Address | None = option(
        None,
        address,
        (
            "address of grpc.health.v1 alone, in plaintext, for probes without TLS "
            "(default: none, only that of --grpc)"
        ),
        metavar=HOST_PORT,
    )
    admin_address: Address | None = option(
        None,
        address,
        (
            "address of the admin service, which loads and unloads models, with the TLS of --grpc; "
            "it needs --admin-tokens or --tls-client-ca (default: none)"
        ),
        metavar=HOST_PORT,
    )
    # At most 24 days: gRPC counts its milliseconds in 32 bits.
    max_connection_age_seconds: float = option(
        300.0,
        between(1, 86400 * 24),
        (
            "close a connection after this time, give or take a tenth, so that clients find new "
            "replicas; calls in flight are finished"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """TLS, authentication and quotas."""

    tls_cert: Path | None = option(
        None,
        Path,
        "certificate of --grpc and --api with its intermediates, PEM; read again when it changes",
        metavar="FILE",
    )
    tls_key: Path | None = option(
        None, Path, "private key of --tls-cert, PEM, not encrypted", metavar="FILE"
    )
    tls_ca: Path | None = option(
        None,
        Path,
        "authorities, PEM; a certificate of --tls-cert that none of them signed is refused",
        metavar="FILE",
    )
    tls_client_ca: Path | None = option(
        None,
        Path,
        "authorities, PEM; every client must show a certificate that one of them signed",
        metavar="FILE",
    )
    auth_tokens: Path | None = option(
        None,
        Path,
        (
            "file with lines NAME TOKEN or NAME sha256:HEX; every call must bring one of these "
            "tokens, except health checks and, over HTTP, /, /health, /ping, /docs and "
            "/openapi.json"
        ),
        metavar="FILE",
    )
    admin_tokens: Path | None = option(
        None,
        Path,
        "file as for --auth-tokens; every call of --admin-address must bring one of its tokens",
        metavar="FILE",
    )
    quota_tokens_per_second: float | None = option(
        None,
        between(1, 1e9),
        (
            "tokens of texts per second for each client, which is known by the name of its auth "
            "token, else of its certificate (default: no limit)"
        ),
        metavar="TOKENS",
    )
    quota_burst_seconds: float = option(
        10.0, between(1, 86400), "seconds of its quota that an idle client can save up"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are read."""

    truncation: Truncate = choice_option(
        "refuse",
        (
            "what happens to a text that is too long for the model, unless the request says it: "
            "refuse it, or cut off its end or its start, or of a pair the end of the second text "
            "alone; answers report what was cut"
        ),
        *TRUNCATE,
    )
    # Refused by default, as by OpenAI's API and text-embeddings-inference: it is mostly a slip of
    # the caller, and its vector is close to those of many short texts.
    empty_texts: EmptyTexts = choice_option(
        "refuse",
        (
            "what happens to an empty text, unless the request says it: refuse: the request fails "
            "and names it; encode: its prompt and special tokens, as sentence-transformers does"
        ),
        *EMPTY_TEXTS,
    )
    special_tokens: SpecialTokens = choice_option(
        "parse",
        (
            "how special tokens spelled out in a text, as [SEP], are read, unless the request "
            "says it: parse: as special tokens, as Hugging Face does; text: as plain characters, "
            "for texts of strangers"
        ),
        *SPECIAL_TOKENS,
    )
    max_text_characters: int | None = option(
        None,
        COUNT,
        (
            "characters of one text with its prompt (default: 64 per token of the longest text); "
            "the bundle's tokenizer_limit is kept, too; of a text to be truncated, so many are read"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Limits of one request, one answer and one stream."""

    max_items: int = option(
        2048,
        COUNT,
        "texts per request; for vectors, texts of any length the model takes",
    )
    # An eighth of the queue: one stream's requests in flight fill it, and no lone interactive
    # client is shed. Bulk may have an eighth less (RESERVE): one of eight such large requests is
    # shed, and sent again after others are answered.
    max_request_tokens: int = option(
        16384,
        COUNT,
        (
            "tokens of a request in the queue at once; lower it to share the queue more evenly. "
            "A request for vectors may have more, and is computed in parts of so many"
        ),
    )
    max_request_bytes: int = option(
        4 << 20, MESSAGE_BYTES, "bytes of one request message; raise it for long texts"
    )
    max_unary_response_bytes: int = option(
        4 << 20,
        MESSAGE_BYTES,
        "bytes of one unary answer; raise it only if clients raise their own limit",
    )
    max_stream_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of results that one stream may hold (default: all outputs of one longest text, "
            "from 64 MiB to 1 GiB)"
        ),
    )
    max_stream_in_flight: int = option(
        8,
        COUNT,
        "requests of one stream at once; raise it for distant clients",
        metavar="REQUESTS",
    )
    # Less than the grace at shutdown, together with the time that the largest unary answer adds.
    # Zero would time out every answer of a stream.
    stall_seconds: float = option(
        20.0,
        between(0.1, 86400),
        (
            "seconds for a client to send a request or to read an answer, and as many again for "
            "each 16 MiB; then the call is ended; raise it for slow links"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Limits of all requests together."""

    max_queue_tokens: int = option(
        131072, COUNT, "tokens admitted at once; lower it to refuse early instead of answering late"
    )
    max_queue_bytes: int = option(
        64 << 20, BYTES, "bytes of all requests held at once, counted before they are tokenised"
    )
    max_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of all answers held at once, an eighth of it for answers of at most 1 MiB "
            "(default: four times --max-stream-output-bytes, and at least one unary answer); an "
            "answer that is being sent takes twice its size of memory"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Sizes of batches."""

    batch_tokens: int | None = option(
        None,
        COUNT,
        (
            "padded tokens per batch; fewer: shorter waits (default: 512; openvino: the fastest "
            "here, measured at the first start)"
        ),
    )
    bulk_batch_ms: float = option(
        25.0,
        between(1, 60000),
        (
            "milliseconds of computation per bulk batch, during which interactive requests share "
            "the CPUs with it; more is a little faster"
        ),
    )
    attend_batch_cost: int = option(
        1 << 18,
        whole(1),
        "limit of texts × longest length² per batch with attention, which bounds its memory",
    )
    max_padding: float = option(
        0.2,
        between(0, 1),
        "share of a batch that may be padding; 0: only texts of equal length share a batch",
        metavar="SHARE",
    )
    round_lengths: int | None = option(
        None,
        COUNT,
        (
            "pad batches to a multiple of this many tokens (default: 1; cuda: 16; openvino: the "
            "fastest here, measured at the first start)"
        ),
        metavar="TOKENS",
    )
    weight: float = option(
        1.0,
        between(0.01, 100),
        "share of the CPUs beside other models with work; set it for a model in --models",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """Shutdown and liveness."""

    drain_delay_seconds: float = option(
        0.0,
        SECONDS,
        (
            "wait from NOT_SERVING to closing; on Kubernetes 5 to 10, until the pod's endpoint is "
            "removed"
        ),
    )
    grace_seconds: float = option(
        30.0,
        SECONDS,
        "time for calls in flight at shutdown; set it higher than the longest call takes",
    )
    stuck_seconds: float = option(
        60.0,
        between(1, 86400),
        (
            "/livez fails if there is work, but no batch began or ended for this time; set it "
            "higher than a batch takes"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Log and traces."""

    log_level: str = choice_option("info", "least severe message that is logged", *LEVELS)
    log_format: str = choice_option(
        "auto",
        "text for people, json for programs; auto: text on a terminal, else json",
        *FORMATS,
    )
    otlp_endpoint: str | None = option(
        None,
        endpoint,
        "address of an OpenTelemetry collector; turns tracing on (extra otel, docs/tracing.md)",
        metavar="URL",
    )
