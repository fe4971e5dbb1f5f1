"""The options of the service: one dataclass is the only source of flags, environment variables, help and validation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from headlight.runtime.providers.provider_choice import PRECISIONS, PROVIDERS
from headlight.spec import SPECIAL_TOKENS, SpecialTokens
from headlight_service.config.command_line import ConfigError, read, refuse_unknown
from headlight_service.config.option_types import (
    Address,
    address,
    between,
    digest,
    endpoint,
    flag,
    lengths,
    one_of,
    whole,
)
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.telemetry.json_logs import LEVELS

SECONDS = between(0, 86400)
BYTES = whole(1024)
MESSAGE_BYTES = whole(1024, (1 << 31) - 1)  # neither gRPC nor protobuf has larger messages
COUNT = whole(1, (1 << 31) - 1)  # no message has more of anything; what GetModel tells of is a uint32
THREADS = whole(1, 1024)  # far more than CPUs; of many more a process can die before it says why


def option(parse: Callable[[str], Any], why: str) -> Mapping[str, Any]:
    """What a field of Config needs besides its default: how its text is read, and why one would change it."""
    return {"parse": parse, "why": why}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Every option of `headlight serve`. `--max-items` is also HEADLIGHT_MAX_ITEMS; the command line wins."""

    bundle: Path = field(metadata=option(Path, "directory of the exported model to serve (default: the shipped model)"))
    bundle_sha256: str | None = field(
        default=None,
        metadata=option(digest, "digest the bundle's manifest must have; set it where others can write its folder"),
    )
    grpc: Address = field(
        default=Address("127.0.0.1", 50051),
        metadata=option(address, "where to serve gRPC; 0.0.0.0 or [::] to be reached from other machines"),
    )
    http: Address = field(
        default=Address("127.0.0.1", 8080),
        metadata=option(address, "where to serve /metrics, /livez and /readyz; 0.0.0.0 or [::] as for --grpc"),
    )
    health: Address | None = field(
        default=None,
        metadata=option(
            address, "where to serve grpc.health.v1 alone, in plaintext, for probes that know no TLS (default: nowhere)"
        ),
    )
    tls_cert: Path | None = field(
        default=None,
        metadata=option(Path, "certificate of --grpc with its intermediates, PEM; read again when it changes"),
    )
    tls_key: Path | None = field(default=None, metadata=option(Path, "its key, PEM, not encrypted"))
    tls_ca: Path | None = field(
        default=None,
        metadata=option(
            Path, "authorities, PEM, from one of which --tls-cert must come; a pair of any other is not taken"
        ),
    )
    tls_client_ca: Path | None = field(
        default=None,
        metadata=option(Path, "authorities, PEM, one of which must have signed the certificate of every caller"),
    )
    auth_tokens: Path | None = field(
        default=None,
        metadata=option(
            Path,
            "lines of NAME TOKEN or NAME sha256:HEX; every call must bring one of these tokens, but for health checks",
        ),
    )
    quota_tokens_per_second: float | None = field(
        default=None,
        metadata=option(
            between(1, 1e9), "of the model, for each client by the name of its token, else of its certificate"
        ),
    )
    quota_burst_seconds: float = field(
        default=10.0, metadata=option(between(1, 86400), "of its quota that a client can save up while it asks less")
    )
    provider: str = field(
        default="auto",
        metadata=option(
            one_of("auto", *PROVIDERS),
            "what computes; openvino has bf16 on CPUs with AVX512-BF16 or AMX; auto: cuda where onnxruntime-gpu is installed and"
            " there is a GPU, else cpu",
        ),
    )
    gpu_device: int = field(
        default=0,
        metadata=option(whole(0, (1 << 31) - 1), "which GPU, of those that the process sees, for provider cuda"),
    )
    gpu_memory_bytes: int | None = field(
        default=None,
        metadata=option(
            whole(1 << 20),
            "of the GPU's memory for each graph's arena, of which there are two unless --attention off (default: what there is)",
        ),
    )
    precision: str = field(
        default="fp32",
        metadata=option(
            one_of(*PRECISIONS),
            "of the computation, where the bundle has graphs for it; the same on all nodes that fill one index",
        ),
    )
    threads: int | None = field(
        default=None,
        metadata=option(
            THREADS, "for each batch (default: the CPUs, shared by the streams); more than 1 for few long texts"
        ),
    )
    streams: int | None = field(
        default=None,
        metadata=option(
            THREADS,
            "batches at once; those of bulk that run when interactive ones come end beside them, so for a moment there may be twice"
            " as many (default: one for each CPU, at most 8; cuda: 1)",
        ),
    )
    wide: str = field(
        default="auto",
        metadata=option(
            one_of("auto", "on", "off"),
            "whether a lone interactive batch gets all threads: a sooner answer, for a second copy of the weights in memory;"
            " auto: from 4 threads on (openvino: 2), and with fewer by the graph that returns attention, without a copy",
        ),
    )
    attention: str = field(
        default="on",
        metadata=option(one_of("on", "off"), "off serves vectors alone, without the memory of the other graph"),
    )
    max_items: int = field(default=512, metadata=option(COUNT, "inputs per request; clients split their work by it"))
    max_text_characters: int | None = field(
        default=None,
        metadata=option(
            COUNT,
            "characters of one text with its prompt (default: 64 for each token of the longest); more are not read, nor more than"
            " the bundle's tokenizer_limit",
        ),
    )
    special_tokens: SpecialTokens = field(
        default="parse",
        metadata=option(
            one_of(*SPECIAL_TOKENS),
            "how special tokens spelled out in a text, as [SEP], are read unless a request says it: parse makes the special token of"
            " each, as Hugging Face does; text reads plain characters, for texts of strangers",
        ),
    )
    max_request_tokens: int = field(
        # An eighth of the queue: one stream's requests in flight fill it, and no lone interactive caller is shed. Bulk may have an
        # eighth less (RESERVE): of eight requests as large as this one is shed, and sent again once others are answered.
        default=16384,
        metadata=option(COUNT, "tokens per request; lower it to share the queue more evenly"),
    )
    max_request_bytes: int = field(
        default=4 << 20, metadata=option(MESSAGE_BYTES, "bytes of one request message; raise it for long texts")
    )
    max_unary_response_bytes: int = field(
        default=4 << 20,
        metadata=option(MESSAGE_BYTES, "bytes of one unary answer; raise it only where clients raise their own limit"),
    )
    max_stream_output_bytes: int | None = field(
        default=None,
        metadata=option(
            BYTES,
            "bytes of results one stream may hold (default: all outputs of one longest text, at least 64 MiB and at most 1 GiB)",
        ),
    )
    max_stream_in_flight: int = field(
        default=8, metadata=option(COUNT, "requests of one stream at once; raise it for distant clients")
    )
    stall_seconds: float = field(
        # Together with the time that the largest unary answer adds, less than the grace at shutdown.
        default=20.0,
        metadata=option(
            between(0.1, 86400),  # with no time at all nobody would ever be answered on a stream
            "for a caller to read an answer, or to send a request, and again for each 16 MiB, else it is cut; raise it for slow links",
        ),
    )
    max_output_bytes: int | None = field(
        default=None,
        metadata=option(
            BYTES,
            "bytes of all answers held at once, an eighth of them kept for those of at most 1 MiB; what is being sent takes"
            " twice its size of memory (default: four times what one stream may hold, and room for one unary answer at the least)",
        ),
    )
    max_queue_bytes: int = field(
        default=64 << 20, metadata=option(BYTES, "bytes of all requests held at once, from before tokenising")
    )
    max_queue_tokens: int = field(
        default=131072,
        metadata=option(COUNT, "tokens admitted at once; lower it to refuse early, not answer late"),
    )
    batch_tokens: int = field(
        default=512,
        metadata=option(COUNT, "padded tokens per batch; less waits less, `make tune` finds where more gains nothing"),
    )
    bulk_batch_ms: float = field(
        default=25.0,
        metadata=option(
            between(1, 60000),
            "milliseconds of work in a batch of bulk, which is how long others share the CPUs with it; more is a little faster",
        ),
    )
    attend_batch_cost: int = field(
        default=1 << 18,
        metadata=option(whole(1), "count × longest² per batch with attention, which bounds its memory"),
    )
    max_padding: float = field(
        default=0.2,
        metadata=option(between(0, 1), "share of a batch that may be padding; 0 batches equal lengths only"),
    )
    round_lengths: int = field(
        default=1,
        metadata=option(
            COUNT, "tokens; batches are padded to a multiple of it: 8 where each new shape is compiled, else 1"
        ),
    )
    max_connection_age_seconds: float = field(
        default=300.0,
        metadata=option(
            between(1, 86400 * 24),  # gRPC counts its milliseconds in 32 bits
            "(give or take a tenth) until a client must connect anew, and so finds new replicas; calls in flight end in peace",
        ),
    )
    stuck_seconds: float = field(
        default=60.0,
        metadata=option(
            between(1, 86400),
            "without a batch begun or done, while there is work, until the process calls itself dead; more than a batch takes",
        ),
    )
    drain_delay_seconds: float = field(
        default=0.0,
        metadata=option(SECONDS, "from NOT_SERVING to closing; on Kubernetes 5 to 10, until endpoints are removed"),
    )
    grace_seconds: float = field(
        default=30.0, metadata=option(SECONDS, "for calls in flight at shutdown; more than the longest call takes")
    )
    warm_up_lengths: tuple[int, ...] = field(
        default=(16, 64, 256),
        metadata=option(lengths, "tokens; run before serving, so that no caller pays for a first run"),
    )
    otlp_endpoint: str | None = field(
        default=None,
        metadata=option(
            endpoint, "URL of an OpenTelemetry collector; switches tracing on (extra otel, docs/tracing.md)"
        ),
    )
    log_level: str = field(default="info", metadata=option(one_of(*LEVELS), "least severe message to log"))
    check: bool = field(
        default=False, metadata=option(flag, "verify the bundle, run its golden inputs, print one line and exit")
    )

    @classmethod
    def parse(cls, arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
        """Read the options.

        Args:
            arguments: the command line, without the program.
            environ: the environment.

        Raises:
            ConfigError: naming the option (or the variable) and what it must be; or a variable that is no option.
            SystemExit: after --help.
        """
        values = read(dataclasses.fields(cls), arguments, environ)
        refuse_unknown(dataclasses.fields(cls), environ)
        if "bundle" not in values:
            raise ConfigError("--bundle is missing; give the directory that `headlight export` wrote")
        config = cls(**values)
        config._check()
        return config

    def _check(self) -> None:
        """See that the options fit each other."""
        listening = {"--grpc": self.grpc, "--http": self.http, "--health": self.health}
        for (one, here), (other, there) in itertools.combinations(listening.items(), 2):
            if here is not None and there is not None and here.meets(there):
                raise ConfigError(f"{one} is {here}, {other} {there}; give each a port of its own")
        if self.max_request_tokens > self.max_queue_tokens:
            have = f"--max-request-tokens is {self.max_request_tokens}, --max-queue-tokens {self.max_queue_tokens}"
            raise ConfigError(f"{have}; the queue must hold at least one request")
        if self.max_request_bytes > self.max_queue_bytes:
            have = f"--max-request-bytes is {self.max_request_bytes}, --max-queue-bytes {self.max_queue_bytes}"
            raise ConfigError(f"{have}; the process must hold at least one request")
        if self.max_output_bytes and largest_output(self.max_output_bytes) < self.max_unary_response_bytes:
            problem = "is too small for --max-unary-response-bytes; the process must hold one answer, and a reserve"
            raise ConfigError(f"--max-output-bytes {problem}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("--tls-cert and --tls-key are needed together; give both, or neither")
        if self.tls_ca is not None and self.tls_cert is None:
            raise ConfigError(
                "--tls-ca needs --tls-cert and --tls-key, whose authority it is; for callers' use --tls-client-ca"
            )
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ConfigError("--tls-client-ca needs --tls-cert and --tls-key: without TLS nobody shows a certificate")
        if self.quota_tokens_per_second is not None and self.auth_tokens is None and self.tls_client_ca is None:
            problem = "needs --auth-tokens or --tls-client-ca; without either nobody knows one client from another"
            raise ConfigError(f"--quota-tokens-per-second {problem}")
