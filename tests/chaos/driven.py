"""Rows shown by tests of the repository: node ids, and what they assert.

Add a row here for each.
"""

from __future__ import annotations

from tests.chaos.matrix import Row

FAKED = (
    "a device that fails is faked (tests/service/fakes.py, "
    "headlight/runtime/providers/device_faults.py); this is a CPU"
)

DRIVEN: tuple[Row, ...] = (
    Row(
        "F2b",
        "Deadline passed in the queue",
        "requests whose time runs out before their batch is taken",
        "they never run; their queue tokens are released at once",
        tests=(
            (
                "tests/service/frontends/grpc/"
                "test_cancelled_items.py::test_expired_queue_items_never_run"
            ),
            (
                "tests/service/frontends/grpc/"
                "test_cancelled_items.py::test_expired_items_leave_the_queue_at_once"
            ),
        ),
        asserts="0 expired requests run",
    ),
    Row(
        "F3",
        "Clients that disconnect",
        "calls cancelled while queued, in a batch and in a stream; a client killed",
        (
            "queued items never run; other items of the batch are answered; all reserved bytes and "
            "tokens are released"
        ),
        tests=(
            "tests/service/frontends/grpc/test_cancelled_items.py",
            "tests/service/frontends/grpc/test_hung_up.py",
            (
                "tests/service/frontends/grpc/"
                "test_encode_stream.py::test_a_disconnecting_caller_frees_everything"
            ),
            "tests/system/test_hung_up.py",
        ),
        asserts=(
            "0 cancelled requests run from the queue, 0 other items of a batch harmed, nothing "
            "reserved afterwards"
        ),
    ),
    Row(
        "F4a",
        "Slow readers, half messages",
        "callers that read nothing, read little, or send half a request",
        "memory bounded; such callers disconnected after --stall-seconds; others served",
        tests=(
            "tests/system/test_readers.py",
            "tests/service/frontends/grpc/test_slow_readers.py",
            "tests/service/frontends/grpc/test_silent_callers.py",
        ),
        asserts="memory within its limits, every such caller disconnected, 0 others refused",
    ),
    Row(
        "F4d",
        "A crowd that does nothing",
        "2,000 idle streams, 1,000 Health.Watch and 300 callers who read nothing, together",
        "no new call waits; the 1,001st watcher is refused",
        tests=("tests/system/test_transport.py::test_idle_callers_do_not_delay_new_calls",),
        asserts="every new call answered, beside each of the three groups",
    ),
    Row(
        "F6",
        "SIGTERM under load",
        (
            "24 restarts and replacements of replicas under load (short form; the full form has "
            "100): 15 in place, 9 replaced; behind round_robin and nginx"
        ),
        "no call fails; exit code 0",
        tests=(
            "tests/system/test_rollout.py::test_restarts_in_place_under_load_fail_no_call",
            "tests/system/test_rollout.py::test_restarts_in_place_fail_none_of_many_parallel_calls",
            (
                "tests/system/"
                "test_rollout.py::test_replicas_replaced_by_others_under_load_fail_no_call"
            ),
            "tests/system/test_shutdown.py",
        ),
        asserts="0 calls failed, 0 admitted requests lost, every replica ended with exit code 0",
        limit_seconds=400,
    ),
    Row(
        "F7",
        "SIGTERM, and a call that does not end",
        "a call that outlasts --grace-seconds",
        "the process ends when the time is over, with an exit code that is not 0",
        tests=(
            (
                "tests/service/app/"
                "test_main.py::test_a_call_that_outlasts_the_grace_time_makes_the_exit_code_1"
            ),
        ),
        asserts="ended in time, exit code 1, the call counted in the log",
    ),
    Row(
        "F8",
        "kill -9 of the service",
        "the process is killed while six clients wait for it",
        "every waiting call ends as Unavailable or DeadlineExceeded; none waits for ever",
        tests=("tests/system/test_killed.py",),
        asserts="every waiting call ended, unary and streamed",
        reason="the engine runs in the service's process: there is no worker to kill by itself",
    ),
    Row(
        "F8b",
        "The gRPC server stops unexpectedly",
        "a fault injected into its serving thread: once a second, or three times within a second",
        (
            "health fails at once. Once a second: a new server listens, and no call of the shipped "
            "clients fails. Three times within a second: the process ends"
        ),
        tests=(
            "tests/system/test_transport.py::test_a_grpc_server_ending_every_second_fails_no_call",
            "tests/system/test_transport.py::test_a_health_server_that_ends_is_replaced",
            (
                "tests/system/"
                "test_transport.py::test_three_grpc_server_failures_within_a_second_end_the_process"
            ),
            "tests/service/frontends/grpc/transport/test_grpc_server.py",
        ),
        asserts=(
            "once a second: 0 calls failed, 0 wrong answers, 0 false answers of a probe; three "
            "times within a second: the process ended"
        ),
        state="injected",
        reason="no request is known that ends the server",
    ),
    Row(
        "F9a",
        "An engine that hangs",
        (
            "an engine and a tokenizer that never return; an event loop that stalls; for "
            "comparison a saturated service"
        ),
        "liveness lost after --stuck-seconds, but never because of saturation",
        tests=("tests/service/app/test_stalled_engine.py", "tests/service/app/test_liveness.py"),
        asserts="every hang found, 0 false alarms when saturated or idle",
        state="injected",
        reason="the engine is a fake that blocks",
    ),
    Row(
        "F10",
        "Out of device memory",
        "an engine whose memory holds only so many tokens",
        "the batch is halved; what does not fit is refused; the service lives on",
        tests=("tests/service/app/test_device_loss.py",),
        asserts="halves that fit answered, others RESOURCE_EXHAUSTED, 0 restarts",
        state="injected",
        reason=FAKED,
    ),
    Row(
        "F11a",
        "A device that fails for good",
        "sticky CUDA errors, results that are not finite, a lost GPU",
        "nothing answered after the error; the process ends within 2 s",
        tests=(
            "tests/service/app/test_device_loss.py",
            "tests/headlight/runtime/providers/test_device_faults.py",
        ),
        asserts="0 answers after the error, the process ended within 2 s",
        state="injected",
        reason=FAKED,
    ),
    Row(
        "F14a",
        "Mutated messages",
        "mutations of good messages of every kind, to every method",
        "no crash, no UNKNOWN, no INTERNAL; no status message quotes the request; memory flat",
        tests=("tests/system/test_mutations.py::test_mutated_messages",),
        long="messages:mutated_messages",
        times=4,
        asserts=(
            "0 crashes, 0 UNKNOWN or INTERNAL, 0 leaks. 10 million of them: "
            "bench/results/soak-messages.md"
        ),
    ),
    Row(
        "F14b",
        "Mutated HTTP/2 frames",
        (
            "frames, HPACK and message prefixes of good calls changed in 51 ways; "
            "paths that are not UTF-8"
        ),
        "no other client loses a call; every health probe reports the true state",
        tests=(
            "tests/system/test_mutations.py::test_mutated_frames",
            "tests/system/test_path_bytes.py",
        ),
        long="frames:with_paths",
        times=33,
        asserts=(
            "0 calls of other clients lost, 0 wrong answers. 100,000 connections: "
            "bench/results/soak.md"
        ),
        limit_seconds=400,
    ),
    Row(
        "F14c",
        "Hostile HTTP",
        (
            "pipelined floods; lists of lists; bodies and TLS handshakes that never end; lingering "
            "connections; trailers; other websites; silent connections to gRPC; few descriptors, "
            "no thread left"
        ),
        (
            "memory +256 MiB at most; a neighbour is answered within 2 s; three eighths of the "
            "descriptors are left; exit code 0 after SIGTERM"
        ),
        tests=(
            "tests/system/test_hostile.py",
            "tests/system/test_mutations.py::test_mutated_requests",
        ),
        long="requests:mutated_requests",
        times=100,
        asserts="0 neighbours refused or kept waiting, memory and descriptors within their limits",
        limit_seconds=400,
    ),
    Row(
        "F21b",
        "Flood of occlusions",
        "16 callers, each of whom occludes a text of the greatest length",
        "a neighbour's p99 is at most its p99 alone plus one batch of the largest size",
        tests=(
            "tests/system/test_hostile.py::test_neighbours_of_many_occlusions_wait_for_one_batch",
        ),
        asserts="the neighbour's p99 within its limit",
    ),
    Row(
        "F15",
        "Texts and ids at the edge",
        "empty, huge, not UTF-8, ids out of range, and others",
        "the documented status; other clients not affected",
        tests=("tests/system/test_bad_input.py",),
        asserts="every status as documented, other clients answered correctly",
    ),
    Row(
        "F15b",
        "Texts made to be slow",
        (
            "runs of line breaks, marks, emoji and others, as long as the tokenizer's limit "
            "allows; SIGTERM meanwhile"
        ),
        (
            "a text costs in proportion to its length, up to 65,536 characters or 8 to 16 for each "
            "token of the model; where a tokenizer's cost grows faster, at most some 2^26 steps; "
            "exit code 0 after SIGTERM"
        ),
        tests=(
            "tests/system/test_slow_texts.py",
            "tests/headlight/runtime/tokenization/test_tokenizer_probe.py",
        ),
        asserts="every slow tokenizer detected at export, longer texts refused unread",
    ),
    Row(
        "F17",
        "A bundle that was tampered with",
        (
            "flipped bits; files that are missing, added, linked or swapped; paths that lead out "
            "of the bundle"
        ),
        "refused before anything is opened, the file named, exit code 3",
        tests=("tests/system/test_tamper.py", "tests/headlight/runtime/bundle/test_tampering.py"),
        asserts="all refused",
    ),
    Row(
        "F17b",
        "Files of a bundle that change while served",
        "each file overwritten, cut, replaced and removed under load, on ONNX Runtime and OpenVINO",
        "0 wrong answers, 0 crashes",
        tests=(
            "tests/system/test_changed_files.py",
            "tests/headlight/runtime/bundle/test_file_contents.py",
        ),
        asserts="every answer as before the change",
    ),
    Row(
        "F18b",
        "Disk full under a job",
        "a disk that fills while `headlight embed` writes",
        "one line reports it; vectors already written stay, and the job can resume",
        tests=(
            (
                "tests/headlight/cli/embed/"
                "test_end.py::test_a_full_disk_is_reported_and_received_rows_are_kept"
            ),
        ),
        asserts="the job resumed where it had stopped",
        state="injected",
        reason="writing fails as on a full disk",
    ),
    Row(
        "F18c",
        "An unread log; FIFOs instead of files",
        "standard error is a full pipe; token and certificate files are replaced by FIFOs",
        (
            "calls are answered; the earlier tokens and certificates stay in use; exit code 0 "
            "after SIGTERM"
        ),
        tests=("tests/system/test_log_safety.py",),
        asserts="0 calls failed, nothing that callers send in the log, drops counted",
    ),
    Row(
        "F19",
        "Certificates replaced and broken",
        "10 rotations under load; expired, half written, mixed, foreign ones",
        "no handshake and no call fails; what cannot be used is not taken",
        tests=("tests/system/test_tls.py",),
        asserts=(
            "0 failed handshakes, 0 failed calls; the earlier certificate and key stay in use"
        ),
    ),
    Row(
        "F22b",
        "Silent connections to `--metrics`",
        "3,000 connections that send nothing, with `ulimit -n 128`",
        "probes are answered within 1 s; no busy loop",
        tests=("tests/system/test_silent_connections.py",),
        asserts="every probe answered in time",
    ),
    Row(
        "F24",
        "Older and newer peers",
        (
            "recorded messages of 0.1.0 and 0.2.0 against today's stubs, client and service; "
            "fields of a later version in requests and answers"
        ),
        (
            "the same meaning and the same numbers; unknown fields ignored; unknown requested "
            "outputs refused"
        ),
        tests=("tests/wire", "tests/system/test_wire.py"),
        asserts="every method and output of both as it was; the contract only adds",
    ),
    Row(
        "F25",
        "Bulk jobs interrupted",
        "parallel workers, a service that stops, Ctrl-C, a truncated checkpoint record",
        "every line is written once; only work in progress is repeated",
        tests=(
            "tests/system/test_bulk_job.py",
            "tests/system/test_embed_job.py",
            "tests/headlight/cli/embed/test_job_checkpoint.py",
        ),
        asserts="0 lines lost, 0 twice",
    ),
    Row(
        "F26",
        "A replica joins",
        "connections live 5 s; one more replica under load",
        "no call fails; each replica gets at least 80 % of an equal share",
        tests=(
            "tests/system/test_rollout.py::test_load_is_balanced_after_a_replica_joins",
            "tests/service/frontends/grpc/transport/test_connection_age.py",
        ),
        asserts="0 calls failed; every replica got at least 80 % of an equal share",
    ),
)
