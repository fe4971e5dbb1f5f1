"""Rows whose faults the modules of this package make."""

from __future__ import annotations

from tests.chaos.matrix import Row

SHIFTED = (
    "the clock is shifted for one process by a library (tests/chaos/faults/clock.c); "
    "the kernel's own is left alone"
)

MADE: tuple[Row, ...] = (
    Row(
        "F13b",
        "The service's wall clock jumps ±1 h",
        "CLOCK_REALTIME of the service jumps by an hour, four times under load, with TLS",
        (
            "no wrong answer; deadlines, stall times and quotas follow the monotonic clock; "
            "new connections still succeed"
        ),
        measure="clocks:server",
        state="injected",
        reason=SHIFTED,
    ),
    Row(
        "F13c",
        "The client's wall clock jumps ±1 h",
        (
            "the same jump in a process with both clients (sync, asyncio), while it waits for a "
            "retry and while it calls"
        ),
        "no wrong answer; timeouts follow the monotonic clock; retries go on",
        measure="clocks:client",
        state="injected",
        reason=SHIFTED,
    ),
    Row(
        "F13d",
        "DNS fails, and the name moves",
        (
            "a name server of the test answers SERVFAIL, then NXDOMAIN, then not at all. Then the "
            "name moves to another service twice: the first time both addresses are valid for "
            "10 s, the second time the old service stops at once. Connections live 5 s"
        ),
        (
            "no wrong answer; no call of a running client fails in an outage or in the move with "
            "overlap; after the move without overlap, calls succeed again within 8 s; in an outage "
            "a new client gets Unavailable"
        ),
        measure="dns:moving",
    ),
    Row(
        "F4b",
        "10,000 idle connections",
        "connections that speak HTTP/2 and never call",
        (
            "at most 64 KiB each; p99 of other calls at most 200 ms, a new client within 1 s; "
            "descriptors closed afterwards"
        ),
        measure="connections:idle",
    ),
    Row(
        "F4c",
        "Connections that break off",
        "20,000 connections, each opened and reset (CVE-2023-4785)",
        (
            "descriptors closed; memory +64 MiB at most; afterwards p99 of calls at most 200 ms, "
            "or 5 times that before"
        ),
        measure="connections:aborted",
    ),
    Row(
        "F5",
        "Rapid reset",
        "100,000 streams, each begun and reset at once (CVE-2023-44487), by a raw HTTP/2 client",
        "the service stays alive; its CPU is idle again within 2 s; every call has ended",
        measure="connections:resets",
    ),
    Row(
        "F9b",
        "The process is stopped for a time",
        "SIGSTOP for 0.5, 1 and 4 s under load, then SIGCONT",
        (
            "calls end at most 1 s after their timeout; right answers within 5 s after a pause; "
            "liveness kept"
        ),
        measure="paused:stopped",
    ),
    Row(
        "F12",
        "Memory limit",
        (
            "a cgroup limit of 2 GiB, as in deploy/base, under the soak's mix of good and bad "
            "calls; then a limit of 48 MiB"
        ),
        "no kill at the documented limit: the service sheds load first; no wrong answer",
        measure="cgroups:memory",
    ),
    Row(
        "F13a",
        "CPU throttled",
        "a cgroup limit of half of one CPU, for 20 s under load",
        (
            "no wrong answer; liveness kept; afterwards the median is at most twice that before "
            "plus 20 ms"
        ),
        measure="cgroups:cpu",
    ),
    Row(
        "F13e",
        "Slow, lossy network",
        "a relay that delays by 50 ms each way and sends 5 % of segments again after 300 ms",
        "no call fails within 30 s; no wrong answer",
        measure="network:slow",
        state="injected",
        reason="the kernel here has no netem (tc qdisc); a relay delays the bytes as TCP would on "
        "such a network",
    ),
    Row(
        "F18a",
        "Read-only root, full /tmp",
        "a mount namespace in which everything is read-only, and /tmp has no byte left",
        "starts and serves as ever",
        measure="disks:read_only",
    ),
    Row(
        "F1",
        "Overload",
        (
            "open-loop calls at 0.8, 1, 2, 5 and 10 times the capacity, "
            "10 s each (short form; the full form has 60 s each)"
        ),
        (
            "goodput at least 85 % of its peak at 2 and 5 times the capacity, and 75 % at "
            "10 times; the rest is refused; afterwards all calls are answered"
        ),
        measure="overload:overload",
    ),
    Row(
        "F2a",
        "Deadlines too short",
        "calls with a deadline of 1 to 50 ms, beside other load",
        (
            "DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED because the deadline cannot be met, at most "
            "250 ms after the deadline; at most 10 % of the computed texts, plus 8, without an "
            "answer"
        ),
        measure="overload:deadlines",
    ),
    Row(
        "F16",
        "Decompression bomb",
        (
            "three gzip messages: 1 GiB of zeros; a million empty texts (4 MB); two million inputs "
            "without content (4 MB)"
        ),
        "refused; memory +128 MiB at most; right answers afterwards",
        measure="beside:bomb",
    ),
    Row(
        "F20",
        "Noisy neighbour",
        (
            "a client that asks 40 times its quota, in texts of 800 tokens, "
            "beside one that keeps to it"
        ),
        "the quiet one is never refused",
        measure="beside:neighbour",
    ),
    Row(
        "F21",
        "Flood of bulk",
        "32 callers of bulk beside interactive calls",
        (
            "no interactive call is refused; their median is at most 4 times the median alone "
            "plus 50 ms"
        ),
        measure="beside:flood_of_bulk",
    ),
    Row(
        "F22",
        "Metrics under stress",
        (
            "scrapes at 10 Hz, a scraper that sends half a request, "
            "2,000 calls with invented names of methods and models"
        ),
        "the number of series does not grow; calls are answered",
        measure="beside:scraped",
    ),
    Row(
        "F11b",
        "A real GPU that fails",
        "sticky errors and loss of a real CUDA device",
        "as F11a",
        measure="machine:device",
    ),
    Row(
        "F23",
        "Soak",
        (
            "mixed load with random faults for 2 minutes (short form; the full form has 24 h, and "
            "`nox -s soak` has 30 minutes)"
        ),
        "every call ends and is right; memory, descriptors and threads flat",
        measure="soak:soak",
        long="soak:soak",
        times=15,
    ),
    Row(
        "F27",
        "A model replaced under load",
        (
            "SIGHUP and a link that leads to another version, 20 times under 32 callers (short "
            "form; the full form has 100 swaps)"
        ),
        (
            "no call fails, and each answer is of the version that it names; memory at the end at "
            "most 5 % above that after 5 swaps"
        ),
        measure="replaced_models:swapped",
        long="replaced_models:swapped",
        times=5,
    ),
    Row(
        "F28",
        "Versions loaded and unloaded at random",
        (
            "ten versions, loaded and unloaded by the admin service and addressed at random, for "
            "30 s (short form; the full form has 5 minutes)"
        ),
        (
            "no call fails but those for versions that are not served; each answer is of the "
            "version that was addressed; memory flat"
        ),
        measure="replaced_models:at_random",
        long="replaced_models:at_random",
        times=10,
        limit_seconds=400,
    ),
)
