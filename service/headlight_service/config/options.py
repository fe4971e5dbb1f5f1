"""Options of the service: one dataclass for flags, environment variables, help and validation."""

# ruff: noqa: RUF009  # `option` is dataclasses.field

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headlight.runtime.providers.provider_choice import PRECISIONS, PROVIDERS
from headlight.spec import SPECIAL_TOKENS, TRUNCATE, SpecialTokens, Truncate
from headlight_service.config.command_line import ConfigError, parser_of, read, refuse_unknown
from headlight_service.config.option_types import (
    Address,
    address,
    address_or_off,
    between,
    digest,
    endpoint,
    flag,
    host_name,
    lengths,
    one_of,
    whole,
)
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.telemetry.json_logs import FORMATS, LEVELS

REST = Address("127.0.0.1", 8000)  # recognised by identity: a given address is another object
SECONDS = between(0, 86400)
BYTES = whole(1024)
MESSAGE_BYTES = whole(1024, (1 << 31) - 1)  # neither gRPC nor protobuf has larger messages
# No message has more entries, and GetModel reports limits as uint32.
COUNT = whole(1, (1 << 31) - 1)
THREADS = whole(1, 1024)  # far more than CPUs; with many more, a process can die without a message


def option(default: object, parse: Callable[[str], Any], why: str, *, bare: bool = False) -> Any:
    """Return a field of Config: its default, its parser, and the reason to change it.

    Args:
        default: default of the field.
        parse: returns the value for a text; raises ValueError.
        why: text for --help.
        bare: whether it is given without a flag, as MODEL is.
    """
    metadata = {"parse": parse, "why": why, "bare": bare}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Every option of `headlight serve`. `--max-items` overrides HEADLIGHT_MAX_ITEMS."""

    model: str | None = option(
        None,
        str,
        (
            "a bundle, a model's folder or a Hub id, as org/name; what is no bundle is exported "
            "once, into a cache (default: the shipped model)"
        ),
        bare=True,
    )
    revision: str | None = option(
        None, str, "of a Hub id: a branch, a tag or a commit (default: main)"
    )
    pooling: str | None = option(
        None, str, "for a model that does not say it: mean, cls, max, last, ...; for its export"
    )
    max_length: int | None = option(
        None, COUNT, "tokens of the longest text, for an export (default: what the model says)"
    )
    bundle: Path | None = option(None, Path, "directory of an exported model, in place of MODEL")
    bundle_sha256: str | None = option(
        None,
        digest,
        "digest the bundle's manifest must have; set it where others can write its folder",
    )
    grpc: Address = option(
        Address("127.0.0.1", 50051),
        address,
        "address to serve gRPC on; 0.0.0.0 or [::] to be reached from other machines",
    )
    http: Address = option(
        Address("127.0.0.1", 8080),
        address,
        "address to serve /metrics on, with /livez and /readyz; 0.0.0.0 or [::] as for --grpc",
    )
    rest: Address | None = option(
        REST,
        address_or_off,
        (
            "address to serve OpenAI's and other HTTP APIs on, with TLS, tokens and quotas as "
            "--grpc; 0.0.0.0 or [::] as for --grpc; off: nowhere"
        ),
    )
    rest_host: str | None = option(
        None,
        host_name,
        (
            "name by which HTTP clients may call --rest on a loopback address, besides localhost; "
            "any other is refused there: a web page may have rebound it"
        ),
    )
    health: Address | None = option(
        None,
        address,
        (
            "address to serve grpc.health.v1 alone on, in plaintext, "
            "for probes that know no TLS (default: nowhere)"
        ),
    )
    tls_cert: Path | None = option(
        None, Path, "certificate of --grpc with its intermediates, PEM; read again when it changes"
    )
    tls_key: Path | None = option(None, Path, "its key, PEM, not encrypted")
    tls_ca: Path | None = option(
        None,
        Path,
        (
            "authorities, PEM, from one of which --tls-cert must come; "
            "a pair of any other is not taken"
        ),
    )
    tls_client_ca: Path | None = option(
        None,
        Path,
        "authorities, PEM, one of which must have signed the certificate of every caller",
    )
    auth_tokens: Path | None = option(
        None,
        Path,
        (
            "lines of NAME TOKEN or NAME sha256:HEX; every call must bring one of these tokens, "
            "but for health checks"
        ),
    )
    quota_tokens_per_second: float | None = option(
        None,
        between(1, 1e9),
        "of the model, for each client by the name of its token, else of its certificate",
    )
    quota_burst_seconds: float = option(
        10.0, between(1, 86400), "of its quota that a client can save up while it asks less"
    )
    provider: str = option(
        "auto",
        one_of("auto", *PROVIDERS),
        (
            "execution provider; openvino has bf16 on CPUs with AVX512-BF16 or AMX; auto: cuda if "
            "onnxruntime-gpu is installed and there is a GPU, else cpu"
        ),
    )
    gpu_device: int = option(
        0, whole(0, (1 << 31) - 1), "which GPU, of those that the process sees, for provider cuda"
    )
    gpu_memory_bytes: int | None = option(
        None,
        whole(1 << 20),
        (
            "of the GPU's memory for each graph's arena, of which there are two unless "
            "--attention off (default: what there is)"
        ),
    )
    precision: str = option(
        "fp32",
        one_of(*PRECISIONS),
        (
            "of the computation, where the bundle has graphs for it; "
            "the same on all nodes that fill one index"
        ),
    )
    threads: int | None = option(
        None,
        THREADS,
        "for each batch (default: the CPUs, shared by the streams); more than 1 for few long texts",
    )
    streams: int | None = option(
        None,
        THREADS,
        (
            "batches at once; those of bulk that run when interactive ones come end beside them, "
            "so for a moment there may be twice as many (default: one for each CPU, at "
            "most 8; cuda: 1)"
        ),
    )
    wide: str = option(
        "auto",
        one_of("auto", "on", "off"),
        (
            "whether a lone interactive batch gets all threads: a sooner answer, for a second "
            "copy of the weights in memory; auto: from 4 threads on (openvino: 2), "
            "and with fewer by the graph that returns attention, without a copy"
        ),
    )
    attention: str = option(
        "on", one_of("on", "off"), "off serves vectors alone, without the memory of the other graph"
    )
    max_items: int = option(512, COUNT, "inputs per request; clients split their work by it")
    max_text_characters: int | None = option(
        None,
        COUNT,
        (
            "characters of one text with its prompt (default: 64 for each token of the longest); "
            "more are not read, nor more than the bundle's tokenizer_limit"
        ),
    )
    special_tokens: SpecialTokens = option(
        "parse",
        one_of(*SPECIAL_TOKENS),
        (
            "how special tokens spelled out in a text, as [SEP], are read unless a request says "
            "it: parse makes the special token of each, as Hugging Face does; "
            "text reads plain characters, for texts of strangers"
        ),
    )
    truncation: Truncate = option(
        "refuse",
        one_of(*TRUNCATE),
        (
            "what happens to a text of more tokens than the model takes unless a request says it: "
            "refuse it, or cut off its end or start; answers report what was cut"
        ),
    )
    # An eighth of the queue: one stream's requests in flight fill it, and no lone interactive
    # client is shed. Bulk may have an eighth less (RESERVE): one of eight such large requests is
    # shed, and sent again after others are answered.
    max_request_tokens: int = option(
        16384, COUNT, "tokens per request; lower it to share the queue more evenly"
    )
    max_request_bytes: int = option(
        4 << 20, MESSAGE_BYTES, "bytes of one request message; raise it for long texts"
    )
    max_unary_response_bytes: int = option(
        4 << 20,
        MESSAGE_BYTES,
        "bytes of one unary answer; raise it only where clients raise their own limit",
    )
    max_stream_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of results one stream may hold (default: all outputs of one longest text, "
            "at least 64 MiB and at most 1 GiB)"
        ),
    )
    max_stream_in_flight: int = option(
        8, COUNT, "requests of one stream at once; raise it for distant clients"
    )
    # Less than the grace at shutdown, together with the time that the largest unary answer adds.
    # Zero would time out every answer of a stream.
    stall_seconds: float = option(
        20.0,
        between(0.1, 86400),
        (
            "for a caller to read an answer, or to send a request, and again for each 16 MiB, "
            "else it is cut; raise it for slow links"
        ),
    )
    max_output_bytes: int | None = option(
        None,
        BYTES,
        (
            "bytes of all answers held at once, an eighth of them kept for those of at most 1 "
            "MiB; what is being sent takes twice its size of memory (default: "
            "four times what one stream may hold, and room for one unary answer at the least)"
        ),
    )
    max_queue_bytes: int = option(
        64 << 20, BYTES, "bytes of all requests held at once, from before tokenising"
    )
    max_queue_tokens: int = option(
        131072, COUNT, "tokens admitted at once; lower it to refuse early, not answer late"
    )
    batch_tokens: int = option(
        512,
        COUNT,
        "padded tokens per batch; less waits less, `make tune` finds where more gains nothing",
    )
    bulk_batch_ms: float = option(
        25.0,
        between(1, 60000),
        (
            "milliseconds of work in a batch of bulk, which is how long others share the CPUs "
            "with it; more is a little faster"
        ),
    )
    attend_batch_cost: int = option(
        1 << 18, whole(1), "count × longest² per batch with attention, which bounds its memory"
    )
    max_padding: float = option(
        0.2, between(0, 1), "share of a batch that may be padding; 0 batches equal lengths only"
    )
    round_lengths: int = option(
        1,
        COUNT,
        (
            "tokens; batches are padded to a multiple of it: 8 where each new shape is "
            "compiled, else 1"
        ),
    )
    # At most 24 days: gRPC counts its milliseconds in 32 bits.
    max_connection_age_seconds: float = option(
        300.0,
        between(1, 86400 * 24),
        (
            "(give or take a tenth) until a client must connect anew, and so finds new replicas; "
            "calls in flight end in peace"
        ),
    )
    stuck_seconds: float = option(
        60.0,
        between(1, 86400),
        (
            "without a batch begun or done, while there is work, "
            "until the process calls itself dead; more than a batch takes"
        ),
    )
    drain_delay_seconds: float = option(
        0.0,
        SECONDS,
        "from NOT_SERVING to closing; on Kubernetes 5 to 10, until endpoints are removed",
    )
    grace_seconds: float = option(
        30.0, SECONDS, "for calls in flight at shutdown; more than the longest call takes"
    )
    warm_up_lengths: tuple[int, ...] = option(
        (16, 64, 256), lengths, "tokens; run before serving, so that no caller pays for a first run"
    )
    otlp_endpoint: str | None = option(
        None,
        endpoint,
        "URL of an OpenTelemetry collector; switches tracing on (extra otel, docs/tracing.md)",
    )
    log_level: str = option("info", one_of(*LEVELS), "least severe message to log")
    log_format: str = option(
        "auto",
        one_of(*FORMATS),
        "text for people, json for programs; auto: text on a terminal, else json",
    )
    check: bool = option(
        False, flag, "verify the bundle, run its golden inputs, print one line and exit"
    )

    @classmethod
    def parse(cls, arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
        """Read the options.

        Args:
            arguments: the command line, without the program.
            environ: the environment.

        Raises:
            ConfigError: naming the option (or the variable) and its accepted values, or a variable
                that is not an option.
            SystemExit: after --help.
        """
        values, on_line = read(dataclasses.fields(cls), arguments, environ)
        # Each names the model: the command line overrides the environment.
        for one, other in (("model", "bundle"), ("bundle", "model")):
            if one in on_line and other not in on_line:
                values.pop(other, None)
        refuse_unknown(dataclasses.fields(cls), environ)
        config = cls(**values)
        config._check()
        return config

    def _check(self) -> None:
        """Check that the options fit each other. Raises ConfigError."""
        listening = {"--grpc": self.grpc, "--http": self.http, "--health": self.health}
        if self.rest is not REST:  # the default port may be taken; see `rest_setup`
            listening["--rest"] = self.rest
        for (one, here), (other, there) in itertools.combinations(listening.items(), 2):
            if here is not None and there is not None and here.meets(there):
                raise ConfigError(f"{one} is {here}, {other} {there}; give each a port of its own")
        no_cert = self.tls_cert is None
        clients_are_known = self.auth_tokens is not None or self.tls_client_ca is not None
        problems = (
            (
                self.bundle is not None and self.model is not None,
                f"MODEL is {self.model}, --bundle {self.bundle}; give one of them",
            ),
            (
                self.max_request_tokens > self.max_queue_tokens,
                (
                    f"--max-request-tokens is {self.max_request_tokens}, --max-queue-tokens "
                    f"{self.max_queue_tokens}; the queue must hold at least one request"
                ),
            ),
            (
                self.max_request_bytes > self.max_queue_bytes,
                (
                    f"--max-request-bytes is {self.max_request_bytes}, --max-queue-bytes "
                    f"{self.max_queue_bytes}; the process must hold at least one request"
                ),
            ),
            (
                self.max_output_bytes
                and largest_output(self.max_output_bytes) < self.max_unary_response_bytes,
                "--max-output-bytes is too small for --max-unary-response-bytes;"
                " the process must hold one answer, and a reserve",
            ),
            (
                no_cert != (self.tls_key is None),
                "--tls-cert and --tls-key are needed together; give both, or neither",
            ),
            (
                no_cert and self.tls_ca is not None,
                (
                    "--tls-ca needs --tls-cert and --tls-key, whose authority it is; "
                    "for callers' use --tls-client-ca"
                ),
            ),
            (
                no_cert and self.tls_client_ca is not None,
                (
                    "--tls-client-ca needs --tls-cert and --tls-key: "
                    "without TLS nobody shows a certificate"
                ),
            ),
            (
                self.quota_tokens_per_second is not None and not clients_are_known,
                "--quota-tokens-per-second needs --auth-tokens or --tls-client-ca;"
                " without either nobody knows one client from another",
            ),
        )
        for found, problem in problems:
            if found:
                raise ConfigError(problem)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `headlight serve`."""
    return parser_of(dataclasses.fields(Config))
