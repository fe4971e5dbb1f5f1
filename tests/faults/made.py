"""Rows whose faults the modules of this package make."""

from __future__ import annotations

from tests.faults.matrix import Row

SHIFTED = (
    "the clock is shifted for one process by a library (tests/faults/clock.c); "
    "the kernel's own is left alone"
)

MADE: tuple[Row, ...] = (
    Row(
        "F13b",
        "The service's wall clock jumps ±1 h",
        "CLOCK_REALTIME of the service jumps by an hour, four times under load, with TLS",
        (
            "no wrong answer; deadlines, stall times and quotas by the monotonic clock; "
            "new connections go on"
        ),
        measure="clocks:server",
        state="injected",
        reason=SHIFTED,
    ),
    Row(
        "F13c",
        "The client's wall clock jumps ±1 h",
        "the same for a process with both clients, while it waits to ask again and while it calls",
        "no wrong answer; timeouts by the monotonic clock; retries go on",
        measure="clocks:client",
        state="injected",
        reason=SHIFTED,
    ),
    Row(
        "F13d",
        "DNS fails, and the name moves",
        (
            "a name server of our own answers SERVFAIL, NXDOMAIN, nothing; then the name moves to "
            "another service: once with 10 s in which it has both addresses, once at once, "
            "the old service gone. Connections live 5 s"
        ),
        (
            "no wrong answer; no call of a running client fails in outages nor in a move with "
            "overlap; a move without is over in 8 s; a new client gets Unavailable"
        ),
        measure="names:moving",
    ),
    Row(
        "F4b",
        "10,000 idle connections",
        "connections that speak HTTP/2 and never call",
        (
            "at most 64 KiB each; p99 of other calls at most 200 ms, a new client within 1 s; "
            "descriptors back afterwards"
        ),
        measure="connections:idle",
    ),
    Row(
        "F4c",
        "Connections that break off",
        "20,000 times connect and reset (CVE-2023-4785)",
        "descriptors back, memory +64 MiB at most, calls as before afterwards",
        measure="connections:aborted",
    ),
    Row(
        "F5",
        "Rapid reset",
        "100,000 streams, each begun and reset at once (CVE-2023-44487), by a client made by hand",
        "alive; CPU idle again in 2 s; no call left over",
        measure="connections:resets",
    ),
    Row(
        "F9b",
        "The process stands still",
        "SIGSTOP for 0.5, 1 and 4 s under load, then SIGCONT",
        (
            "calls end at their timeout + 1 s at most; right answers within 5 s "
            "afterwards; liveness kept"
        ),
        measure="paused:stopped",
    ),
    Row(
        "F12",
        "Memory limit",
        (
            "a control group of 2 GiB, the limit of deploy/base, under the soak's mix of good and "
            "bad calls; then one of 48 MiB"
        ),
        "0 kills at the documented limit; sheds before; no wrong answer",
        measure="cgroups:memory",
    ),
    Row(
        "F13a",
        "CPU throttled",
        "a control group with half of one CPU, for 20 s under load",
        "no wrong answer; liveness kept; as before afterwards",
        measure="cgroups:cpu",
    ),
    Row(
        "F13e",
        "Slow, lossy network",
        "a relay that delays by 50 ms each way and sends 5 % of segments again after 300 ms",
        "no call fails within 30 s; no wrong answer",
        measure="network:slow",
        state="injected",
        reason="the kernel here has no netem (tc qdisc); a relay delays what TCP would",
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
            "10 s each (a short form of 60 s)"
        ),
        (
            "goodput of 85 % of the peak at 2 and 5 times, 75 % at 10; the rest refused; "
            "as before afterwards"
        ),
        measure="overload:overload",
    ),
    Row(
        "F2a",
        "Deadlines too short",
        "calls with 1 to 50 ms beside others' load",
        (
            "DEADLINE_EXCEEDED, or refused as hopeless, at most 250 ms late; "
            "next to nothing computed in vain"
        ),
        measure="overload:deadlines",
    ),
    Row(
        "F16",
        "Decompression bomb",
        "1 GiB of zeros as gzip; a million empty inputs in 4 MB; as many of no kind, as gzip",
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
        "no interactive call is refused; their median at most 4 times as long, and 50 ms",
        measure="beside:flood_of_bulk",
    ),
    Row(
        "F22",
        "Metrics under stress",
        (
            "scrapes at 10 Hz, a scraper that says nothing, "
            "2,000 calls of methods and models with invented names"
        ),
        "the number of series stays; calls are answered",
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
            "mixed load with faults at random, 2 minutes (a short form of 24 h; "
            "`make soak` is one of 30 minutes)"
        ),
        "every call ends and is right; memory, descriptors and threads flat",
        measure="machine:soak",
        limit_seconds=300,
    ),
)
