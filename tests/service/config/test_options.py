from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import grpc
import pytest

from headlight_service.app.assembly import limits
from headlight_service.app.server_setup import options
from headlight_service.config.command_line import PREFIX, ConfigError
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from tests.service.fakes import manifest

BUNDLE = ("--bundle", "b")


TEXTS = {
    "model": ("text", ("text",)),
    **dict.fromkeys(("revision", "pooling"), ("text", "text")),
    "models": ("file", Path("file")),
    "bundle": ("there", Path("there")),
    "bundle_sha256": ("AB" * 32, "ab" * 32),
    "grpc": ("[::1]:0", Address("::1", 0)),
    "metrics": ("0.0.0.0:80", Address("0.0.0.0", 80)),
    "api": ("[::1]:0", Address("::1", 0)),
    "api_host": ("Encoder.internal", "encoder.internal"),
    "page": ("off", "off"),
    "provider": ("cpu", "cpu"),
    "precision": ("int8", "int8"),
    "threads": ("4", 4),
    "streams": ("4", 4),
    "gpu_memory_bytes": ("1048576", 1 << 20),
    "gpu_graphs": ("on", "on"),
    "attention": ("off", "off"),
    "stall_seconds": ("2.5", 2.5),
    "max_output_bytes": ("9999999", 9999999),
    "max_queue_bytes": ("9999999", 9999999),
    "max_request_tokens": ("5000", 5000),
    "max_queue_tokens": ("50000", 50000),
    "max_padding": ("0.5", 0.5),
    "weight": ("0.5", 0.5),
    "wide": ("off", "off"),
    "drain_delay_seconds": ("5", 5.0),
    "grace_seconds": ("0.5", 0.5),
    "warm_up_lengths": ("8, 16", (8, 16)),
    "served_model_name": ("org/a, b", ("org/a", "b")),
    "any_model_name": ("true", True),
    "cors_origins": (
        "https://app.example,http://[::1]:80",
        ("https://app.example", "http://[::1]"),
    ),
    "otlp_endpoint": ("http://localhost:4317", "http://localhost:4317"),
    "log_level": ("debug", "debug"),
    "log_format": ("text", "text"),
    "truncation": ("start", "start"),
    "special_tokens": ("text", "text"),
    "empty_texts": ("encode", "encode"),
    "check": ("true", True),
    "health": ("0.0.0.0:50052", Address("0.0.0.0", 50052)),
    "admin_address": ("127.0.0.1:50053", Address("127.0.0.1", 50053)),
    **{
        name: ("file", Path("file"))
        for name in (
            *("tls_cert", "tls_key", "tls_ca", "tls_client_ca", "auth_tokens", "admin_tokens"),
            "models_root",
        )
    },
}
WITH = {  # options that another option requires
    "tls_cert": {"tls_key": "k"},
    "tls_key": {"tls_cert": "c"},
    "tls_ca": {"tls_cert": "c", "tls_key": "k"},
    "tls_client_ca": {"tls_cert": "c", "tls_key": "k"},
    "quota_tokens_per_second": {"auth_tokens": "t"},
    "admin_address": {"admin_tokens": "t"},
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Config)])
def test_every_option_is_a_flag_and_a_variable(name: str) -> None:
    text, value = TEXTS.get(name, ("4096", 4096))
    flag = () if name == "model" else ("--" + name.replace("_", "-"),)
    others = {PREFIX + key.upper(): other for key, other in WITH.get(name, {}).items()}
    assert getattr(Config.parse((*flag, text), others), name) == value
    environ = {PREFIX + name.upper(): text, **others}
    assert getattr(Config.parse((), environ), name) == value


def test_the_command_line_overrides_the_environment() -> None:
    assert Config.parse((*BUNDLE, "--streams", "3"), {"HEADLIGHT_STREAMS": "4"}).streams == 3


@pytest.mark.parametrize("arguments", [("--check", *BUNDLE), ("--check", "org/name"), ("--check",)])
def test_check_needs_no_value(arguments: tuple[str, ...]) -> None:
    assert Config.parse(arguments, {}).check


@pytest.mark.parametrize(
    ("arguments", "variable", "model", "bundle"),
    [
        (("org/name",), "HEADLIGHT_BUNDLE", ("org/name",), None),
        (("org/name",), "HEADLIGHT_MODELS", ("org/name",), None),
        (BUNDLE, "HEADLIGHT_MODEL", (), Path("b")),
    ],
)
def test_a_model_of_the_command_line_overrides_that_of_the_environment(
    arguments: tuple[str, ...], variable: str, model: tuple[str, ...], bundle: Path | None
) -> None:
    config = Config.parse(arguments, {variable: "another"})
    assert (config.model, config.bundle, config.models) == (model, bundle, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("org/name", "MODEL is org/name, --bundle b; give one"),
        ("--streams 0", "--streams is '0'; it must be a whole number from 1 to 1024"),
        ("--streams two", "--streams is 'two'"),
        ("--max-padding 1.5", "--max-padding is '1.5'; it must be a number from 0 to 1"),
        ("--max-padding nan", "--max-padding is 'nan'"),
        ("--grace-seconds -1", "--grace-seconds is '-1'"),
        ("--grpc 50051", "--grpc is '50051'; it must be HOST:PORT"),
        ("--grpc a:65536", "--grpc is 'a:65536'"),
        ("--grpc http://a:1", "--grpc is 'http://a:1'; it must be HOST:PORT"),
        ("--metrics []:1", "--metrics is '[]:1'; it must be HOST:PORT"),
        ("--health a..b:1", "--health is 'a..b:1'; it must be HOST:PORT"),
        (
            "--grpc 127.0.0.1:8080",
            "--grpc is 127.0.0.1:8080, --metrics 127.0.0.1:8080; give each a port",
        ),
        (
            "--metrics [::]:50051",
            "--grpc is 127.0.0.1:50051, --metrics [::]:50051; give each a port",
        ),
        (
            "--health 0.0.0.0:8080",
            "--metrics is 127.0.0.1:8080, --health 0.0.0.0:8080; give each a port",
        ),
        ("--grcp a:1", "there is no option --grcp (did you mean --grpc?)"),
        ("--provider cudda", "openvino, cuda (did you mean cuda?)"),
        ("--provider tpu", "--provider is 'tpu'; it must be one of auto, cpu, openvino, cuda"),
        ("--gpu-device -1", "--gpu-device is '-1'; it must be a whole number from 0 to 2147483647"),
        (
            "--gpu-memory-bytes 4",
            "--gpu-memory-bytes is '4'; it must be a whole number from 1048576 to ",
        ),
        ("--precision int4", "--precision is 'int4'; it must be one of fp32, bf16, fp16, int8"),
        ("--bundle-sha256 12", "--bundle-sha256 is '12'; it must be a SHA-256"),
        ("--warm-up-lengths 8,x", "--warm-up-lengths is '8,x'"),
        ("--warm-up-lengths 0", "--warm-up-lengths is '0'"),
        ("--log-level loud", "--log-level is 'loud'; it must be one of debug"),
        ("--max-queue-tokens 5", "--max-queue-tokens 5; the queue must hold at least one request"),
        (
            "--max-queue-bytes 2000",
            "--max-queue-bytes 2000; the process must hold at least one request",
        ),
        ("--max-output-bytes 2000", "--max-output-bytes is too small for --max-unary-resp"),
        ("--tls-cert c", "--tls-cert and --tls-key are needed together"),
        ("--tls-key k", "--tls-cert and --tls-key are needed together"),
        ("--tls-ca a", "--tls-ca needs --tls-cert and --tls-key"),
        ("--tls-client-ca a", "--tls-client-ca needs --tls-cert and --tls-key"),
        (
            "--admin-address 127.0.0.1:50052 --auth-tokens t",
            "--admin-address needs --admin-tokens or --tls-client-ca",
        ),
        ("--quota-tokens-per-second 9", "needs --auth-tokens or --tls-client-ca; without either"),
        ("--quota-burst-seconds 0", "--quota-burst-seconds is '0'; it must be a number from 1"),
        ("--stall-seconds 0", "--stall-seconds is '0'; it must be a number from 0.1"),
        ("--stuck-seconds 0", "--stuck-seconds is '0'"),
        ("--max-connection-age-seconds 0.5", "--max-connection-age-seconds is '0.5'"),
        ("--attention maybe", "--attention is 'maybe'; it must be one of on, off"),
        ("--nonsense 5", "there is no option --nonsense; see --help"),
    ],
)
def test_invalid_options_are_named_with_a_remedy(arguments: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config.parse((*BUNDLE, *arguments.split()), {})
    assert problem in str(error.value)


def numeric(*kinds: str) -> list[str]:
    """Return the options whose annotation contains one of these types."""
    fields = dataclasses.fields(Config)
    return [field.name for field in fields if {*kinds} & {*re.findall(r"\w+", str(field.type))}]


def beyond(name: str, text: str) -> str:
    """Return the error for an option with an impossible value."""
    flag = "--" + name.replace("_", "-")
    with pytest.raises(ConfigError) as error:
        Config.parse((*BUNDLE, f"{flag}={text}"), {})
    with pytest.raises(ConfigError, match=f"^{PREFIX}{name.upper()} is '"):
        Config.parse(BUNDLE, {PREFIX + name.upper(): text})
    assert str(error.value).startswith(f"{flag} is '")
    return str(error.value).partition("; it ")[2]


@pytest.mark.parametrize("name", numeric("int", "float", "Address"))
@pytest.mark.parametrize("digits", [31, 5000])  # more digits than Python parses
def test_huge_numbers_are_refused_without_a_traceback(name: str, digits: int) -> None:
    number = "1" + "0" * (digits - 1)
    text = f"127.0.0.1:{number}" if name in numeric("Address") else number
    assert beyond(name, text).startswith("must be ")


@pytest.mark.parametrize("name", numeric("float"))
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_non_finite_numbers_are_refused(name: str, text: str) -> None:
    assert beyond(name, text).startswith("must be a number from ")


async def test_the_largest_accepted_numbers_are_usable() -> None:
    largest = {
        name: float(beyond(name, "1" + "0" * 30).rpartition(" to ")[2]) for name in numeric("float")
    }
    for name in numeric("int"):
        if name != "warm_up_lengths":
            largest[name] = int(beyond(name, "1" + "0" * 30).rpartition(" to ")[2])
    given = [f"--{name.replace('_', '-')}={value}" for name, value in largest.items()]
    config = Config.parse((*BUNDLE, *given, "--auth-tokens=t"), {})
    grpc.aio.server(options=options(config))
    assert limits(config, manifest()).max_items == largest["max_items"]


@pytest.mark.parametrize(
    ("grpc_at", "http_at"),
    [("127.0.0.1:0", "127.0.0.1:0"), ("127.0.0.1:9", "127.0.0.2:9"), ("0.0.0.0:9", "[::1]:9")],
)
def test_addresses_that_do_not_collide_are_accepted(grpc_at: str, http_at: str) -> None:
    config = Config.parse((*BUNDLE, "--grpc", grpc_at, "--metrics", http_at), {})
    assert (str(config.grpc), str(config.metrics)) == (grpc_at, http_at)


def test_names_of_the_last_release_still_work() -> None:
    given = {"--rest": "127.0.0.1:1", "--http": "127.0.0.1:2", "--rest-host": "a.example"}
    expected = Config.parse(
        (*BUNDLE, "--api=127.0.0.1:1", "--metrics=127.0.0.1:2", "--api-host=a.example"), {}
    )
    assert Config.parse((*BUNDLE, *(f"{name}={text}" for name, text in given.items())), {}) == (
        expected
    )
    variables = {
        "HEADLIGHT_" + name.strip("-").replace("-", "_").upper(): text
        for name, text in given.items()
    }
    assert Config.parse(BUNDLE, variables) == expected
    with pytest.raises(ConfigError, match="HEADLIGHT_API and HEADLIGHT_REST are one option"):
        Config.parse(BUNDLE, {**variables, "HEADLIGHT_API": "127.0.0.1:3"})
    with pytest.raises(ConfigError, match="--rest is 'x'"):
        Config.parse((*BUNDLE, "--rest=x"), {})
    assert Config.parse((*BUNDLE, "--api=[::1]:3"), variables).api == Address("::1", 3)


def test_an_invalid_environment_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="HEADLIGHT_STREAMS is '0'"):
        Config.parse(BUNDLE, {"HEADLIGHT_STREAMS": "0"})


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        (
            "HEADLIGHT_AUTH_TOKEN",
            "file",
            "HEADLIGHT_AUTH_TOKENS may be meant; else unset it",
        ),  # otherwise the service would be open to everyone
        ("HEADLIGHT_TLS_CLIENTCA", "file", "HEADLIGHT_TLS_CLIENT_CA may be meant; else unset it"),
        ("HEADLIGHT_METRICS_PORT", "8080", "HEADLIGHT_METRICS may be meant; else unset it"),
        ("HEADLIGHT_", "", "--help lists"),
        ("HEADLIGHT_ZZZZZZZZZZZZZZZZZ", "secret", "--help lists"),
    ],
)
def test_a_misspelt_variable_is_refused(name: str, value: str, meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config.parse((*BUNDLE, "--check"), {name: value})
    assert str(error.value).startswith(
        f"{name} is set in the environment, but no such option exists; "
    )
    assert meant in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "variable",
    [
        "HEADLIGHT_TARGET=localhost:1",
        "HEADLIGHT_TOKEN=t",
        "HEADLIGHT_TOKEN_FILE=t",
        "HEADLIGHT_PORT=tcp://10.0.0.1:50051",
        "HEADLIGHT_SERVICE_HOST=10.0.0.1",
        "HEADLIGHT_SERVICE_PORT=50051",
        "HEADLIGHT_SERVICE_PORT_GRPC=50051",
        "HEADLIGHT_PORT_50051_TCP=tcp://10.0.0.1:50051",
        "HEADLIGHT_PORT_50051_TCP_ADDR=10.0.0.1",
        "HEADLIGHT_HEADLESS_SERVICE_HOST=None",
        "HEADLIGHT_GPU_2_SERVICE_PORT_HTTP=8080",
        "HEADLIGHT_GPU_2_PORT=udp://10.0.0.1:53",
        "HEADLIGHT_GPU_2_PORT_53_UDP_PROTO=udp",
        "HEADLIGHTS=on",
        "headlight_x=of others",
    ],
)
def test_foreign_environment_variables_are_ignored(variable: str) -> None:
    name, _, value = variable.partition("=")
    assert Config.parse(BUNDLE, {name: value}) == Config(bundle=Path("b"))


def test_help_says_why_to_change_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Config.parse(("--help",), {})
    text = capsys.readouterr().out
    for field in dataclasses.fields(Config):
        assert field.name == "model" or "--" + field.name.replace("_", "-") in text
    assert "MODEL" in text
    assert "127.0.0.1:50051" in text
    assert "16,64,256" in text
    shown = sum(
        field.default not in (None, ()) and field.type != "bool"
        for field in dataclasses.fields(Config)
    )
    assert " ".join(text.split()).count("(default ") == shown, "those that are 0, too"
