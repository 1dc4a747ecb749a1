"""``python -m workloads.web serve`` and ``poll``: a latency-sensitive service, and the latency that its users see.

Both need only the standard library.

Exit codes: 0 done, which for `serve` means ended by SIGINT or SIGTERM; 1 `serve` could not listen or left requests
unfinished, `poll` got no answer or could not write its JSON file; 2 wrong usage; 130 and 143 `poll` was ended by SIGINT
or SIGTERM, and printed what it had measured until then.
"""

import argparse
import json
import math
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from workloads.command_line import Parser, decimal, held_signals, whole
from workloads.histogram import LatencyHistogram
from workloads.web.poller import Poller, Target, parse_url
from workloads.web.server import WorkServer

GRACE_S = 5.0
"""How long the server waits for requests in flight when it ends; Kubernetes waits for 30 s by default."""

_DEFAULT_DURATION_S = 60.0
_MOST_SECONDS = 1e6
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_QUANTILES = (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    with held_signals(*_ENDINGS):
        try:
            server = WorkServer(
                options.host, options.port, threads=options.threads, service_s=options.service_ms / 1000
            )
        except (OSError, UnicodeError) as error:  # UnicodeError: from names that no host can have
            print(f"web: cannot listen on {options.host} port {options.port}: {error}", file=sys.stderr)
            return 1
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        host, port = server.server_address[:2]
        print(f"listening on http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}", flush=True)
        signal.sigwait(_ENDINGS)
        unfinished = server.drain(GRACE_S)
    if unfinished:
        print(f"web: {unfinished} requests were not finished within {GRACE_S:g} s", file=sys.stderr)
    return 1 if unfinished else 0


def poll(options: argparse.Namespace) -> int:
    """Send requests until all are sent, the time is over or a signal comes; print what was measured."""
    duration_s = options.duration or (_DEFAULT_DURATION_S if options.requests is None else math.inf)
    poller = Poller(
        options.url,
        interval_s=options.interval,
        timeout_s=options.timeout,
        duration_s=duration_s,
        requests=options.requests,
        **({"answered": _print_answer} if options.each else {}),
    )
    received = None
    with held_signals(*_ENDINGS):
        polling = threading.Thread(target=poller.run, daemon=True)
        polling.start()
        while polling.is_alive() and not received:
            polling.join(0.05)
            received = signal.sigtimedwait(_ENDINGS, 0)
        histogram, errors = poller.results()
    code = 128 + received.si_signo if received else 0
    if histogram.count:
        print(table(histogram, errors))
    else:
        why = _listed(errors) or "no request was sent and answered before the end"
        print(f"web: no answer from {options.url.text}: {why}; check the address and the server", file=sys.stderr)
        code = 1
    if options.json is not None:
        try:
            _write(options.json, histogram, errors)
        except OSError as error:
            print(f"web: cannot write {options.json}: {error.strerror}", file=sys.stderr)
            code = 1
    return code


def _print_answer(due_unix_s: float, latency_s: float) -> None:
    print(f"due_unix_s={due_unix_s:.6f} latency_s={latency_s:.6f}", flush=True)


def table(histogram: LatencyHistogram, errors: Counter[str]) -> str:
    """Return at least one latency, and the errors, as a table with times in milliseconds."""
    times = {"min": histogram.min} | {name: histogram.quantile(q) for name, q in _QUANTILES} | {"max": histogram.max}
    lines = [
        f"{'count':>8} {'errors':>8}" + "".join(f" {name:>9}" for name in times) + "  (ms)",
        f"{histogram.count:>8} {errors.total():>8}" + "".join(f" {1000 * time:>9.2f}" for time in times.values()),
    ]
    return "\n".join([*lines, f"errors: {_listed(errors)}"] if errors else lines)


def _listed(errors: Counter[str]) -> str:
    """Return how many requests failed for which reason, the most frequent first."""
    return ", ".join(f"{count} {reason}" for reason, count in errors.most_common())


def _write(path: Path, histogram: LatencyHistogram, errors: Counter[str]) -> None:
    """Write a results file, whole or not at all; if that fails, an earlier file stays."""
    content = histogram.to_dict() | {"errors": errors.total(), "reasons": dict(sorted(errors.items()))}
    path = path.resolve()  # a link stays a link
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    beside.unlink(missing_ok=True)  # left by a process of the same id that was killed
    try:
        with beside.open("x", encoding="utf-8") as file:  # unlike "w", follows no link that somebody else has put there
            file.write(json.dumps(content) + "\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _url(text: str) -> Target:
    try:
        return parse_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _file(text: str) -> Path:
    """Read the name of a file, and check before anything is measured that it can be written."""
    path = Path(text)
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file: name one")
    if not path.resolve().parent.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: its folder is missing or read-only")
    return path


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    codes = (
        "Exit codes: 0 done, 1 cannot listen, no answer or no JSON file, 2 wrong usage, 143 poll ended by SIGTERM, "
        "after which serve ends with 0."
    )
    parser = Parser(
        prog="python -m workloads.web",
        description="A web server that spends CPU time on every request, and a poller that measures how long its "
        "answers take. A latency-sensitive load for testing schedulers.",
        epilog=codes,
    )
    commands = parser.add_subparsers(required=True, metavar="serve|poll")

    serving = commands.add_parser(
        "serve",
        help="answer requests",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Answer GET / after some CPU time and GET /healthz at once, until SIGTERM or SIGINT. Requests in "
        f"flight may then finish within {GRACE_S:g} seconds. Prints the address that it listens on.",
        epilog=codes,
    )
    serving.set_defaults(run=serve)
    for option, metavar, type_, default, text in (
        ("--host", "ADDRESS", str, "127.0.0.1", "to listen on; 0.0.0.0 is every IPv4 address"),
        ("--port", "PORT", whole(range(65536)), 8080, "0 lets the system choose"),
        ("--threads", "N", whole(range(1, 1025)), 4, "requests worked on at the same time"),
        ("--service-ms", "MS", decimal(0, 60_000), 0.2, "CPU time of a request"),
    ):
        serving.add_argument(option, metavar=metavar, type=type_, default=default, help=text)

    polling = commands.add_parser(
        "poll",
        help="measure how long answers take",
        description="Send GETs on a fixed schedule over a kept connection and print count, errors and latencies in ms. "
        "A latency is measured from when the request was due, so a stall counts for all requests that were due in it.",
        epilog=codes,
    )
    polling.set_defaults(run=poll)
    polling.add_argument("url", metavar="URL", type=_url, help="such as http://127.0.0.1:8080/")
    polling.add_argument(
        "--interval",
        metavar="SECONDS",
        type=decimal(0.0001, _MOST_SECONDS),
        default=0.1,
        help="between due times (default: %(default)s)",
    )
    until = polling.add_mutually_exclusive_group()
    until.add_argument(
        "--duration",
        metavar="SECONDS",
        type=decimal(0.001, _MOST_SECONDS),
        help=f"end after this time (default: {_DEFAULT_DURATION_S:g})",
    )
    until.add_argument("--requests", metavar="N", type=whole(range(1, 10**9)), help="end after this many requests")
    polling.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=decimal(0.001, 3600),
        default=5.0,
        help="later answers are errors (default: %(default)s)",
    )
    polling.add_argument("--each", action="store_true", help="print a line for every answer as soon as it arrives")
    polling.add_argument("--json", metavar="FILE", type=_file, help="write the histogram to FILE, too")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; by default that of the process.
    """
    options = _parser().parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
