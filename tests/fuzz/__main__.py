"""``python -m tests.fuzz``: runs targets side by side, and prints what was tried and what was found."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.corpus import files_in, keep, kept, write_files
from tests.fuzz.minimise import reaching_more
from tests.fuzz.random_inputs import HANG_S
from tests.fuzz.target import MOST_GROWTH_KIB, Guard, Target
from tests.fuzz.targets import all_targets

WORK = Path(".fuzz")
"""Where inputs that reach new code, and findings, are kept between runs; git ignores it."""
_LATE_S = 120.0
"""How long a target's process may take beyond its time, to start and to give its corpus to the target."""
_RUN = re.compile(
    r"^#(\d+)\s+(?:DONE|FOUND|INITED|NEW|REDUCE|RELOAD|pulse)\b(?:.*?cov: (\d+))?(?:.*?corp: (\d+))?", re.MULTILINE
)


@dataclass(frozen=True)
class Run:
    """What came of a target."""

    target: Target
    inputs: int
    took_s: float
    coverage: int | None
    """How many edges of instrumented code were reached; None for inputs that nothing guides."""
    corpus: int
    finding: Path | None
    log: Path
    code: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 1 if there are findings, 2 if a target could not be run."""
    options = _parser().parse_args(arguments)
    targets = all_targets()
    if options.list:
        width = max(len(target.name) for target in targets)
        print("\n".join(f"{target.name:<{width}}  {target.reads}" for target in targets))
        return 0
    if unknown := [name for name in options.targets if not any(_is_named(each, name) for each in targets)]:
        print(f"no target is named {', '.join(unknown)}; python -m tests.fuzz --list shows all", file=sys.stderr)
        return 2
    chosen = [each for each in targets if not options.targets or any(_is_named(each, name) for name in options.targets)]
    if options.replay:
        return _replay(chosen, options.replay)
    if options.keep:
        return _keep(chosen)
    seconds = options.seconds
    if options.total is not None:
        seconds = max(options.total * options.jobs / len(chosen), 1.0)
    guided = find_spec("atheris") is not None and not options.unguided
    engine = "guided by coverage (atheris)" if guided else "guided by nothing (Hypothesis)"
    print(f"{len(chosen)} targets, {seconds:.0f} s each, {options.jobs} at a time, {engine}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(partial(_run, seconds=seconds, guided=guided, seed=options.seed), chosen))
    return _report(runs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz",
        description="Give every parser and port inputs that nobody has thought of. A finding is an exception that is "
        f"not documented, a wrong answer, a hang, or more than {MOST_GROWTH_KIB >> 10} MiB of memory.",
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a target, or the part before the dot (default: all)"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, default=60.0, help="for each target (default: 60)")
    length.add_argument(
        "--total", type=float, metavar="SECONDS", help="for all targets together, in place of --seconds"
    )
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="targets at a time (default: one for each CPU)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="where the engine's random numbers begin (default: another each time)"
    )
    parser.add_argument("--unguided", action="store_true", help="use Hypothesis even if atheris is installed")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="give one target this input, and show what happens")
    parser.add_argument(
        "--keep", action="store_true", help="minimise what previous runs have found, and keep it in tests/fuzz/corpus"
    )
    parser.add_argument("--list", action="store_true", help="show the targets")
    return parser


def _is_named(target: Target, name: str) -> bool:
    return name in (target.name, target.name.partition(".")[0])


def _run(target: Target, seconds: float, guided: bool, seed: int | None) -> Run:
    """Run a target in a process of its own."""
    inputs, findings = WORK / "corpus" / target.name, WORK / "findings" / target.name
    findings.mkdir(parents=True, exist_ok=True)
    write_files(inputs, [*target.seeds, *kept(target.name)])
    known = set(findings.iterdir())
    log = WORK / f"{target.name}.log"
    with _scratch() as scratch, log.open("wb") as output:
        command = (_guided if guided else _unguided)(target, seconds, inputs, findings, seed)
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | {"TMPDIR": scratch})
        try:
            code = process.wait(seconds + _LATE_S)
        except subprocess.TimeoutExpired:
            code = 1
            output.write(b"the process did not end, and was killed\n")
        finally:
            process.kill()
            process.wait()
    found = [(int(number), edges, size) for number, edges, size in _RUN.findall(log.read_text(errors="replace"))]
    number, edges, size = found[-1] if found else (0, "", "")
    new = sorted(set(findings.iterdir()) - known)
    return Run(
        target,
        inputs=number,
        took_s=min(time.monotonic() - began, max(seconds, 1.0)),
        coverage=int(edges) if edges else None,
        corpus=int(size or 0),
        finding=new[0] if new else None,
        log=log,
        code=code,
    )


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for the files of a process, in memory where that is possible."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def _guided(target: Target, seconds: float, inputs: Path, findings: Path, seed: int | None) -> list[str]:
    flags = {
        "max_total_time": max(round(seconds), 1),
        "max_len": target.longest,
        "timeout": HANG_S,
        "rss_limit_mb": 2048,
        "artifact_prefix": f"{findings}/",
        "close_fd_mask": 0,
    }
    if seed is not None:
        flags["seed"] = seed
    own = [f"-{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-m", "tests.fuzz.coverage_guided", target.name, *own, str(inputs)]


def _unguided(target: Target, seconds: float, inputs: Path, findings: Path, seed: int | None) -> list[str]:
    first = secrets.randbelow(2**32) if seed is None else seed
    engine = (sys.executable, "-m", "tests.fuzz.random_inputs")
    return [*engine, target.name, str(seconds), str(inputs), str(findings), str(first)]


def _report(runs: Sequence[Run]) -> int:
    width = max(len(run.target.name) for run in runs)
    print(f"{'target':<{width}} {'inputs':>10} {'inputs/s':>9} {'edges':>7} {'corpus':>7}  finding")
    for run in runs:
        finding = run.finding.name[:24] if run.finding else "" if run.code == 0 else "FAILED"
        print(
            f"{run.target.name:<{width}} {run.inputs:>10,} {run.inputs / run.took_s:>9,.0f} "
            f"{'-' if run.coverage is None else run.coverage:>7} {run.corpus:>7}  {finding}"
        )
    print(f"{'all':<{width}} {sum(run.inputs for run in runs):>10,}")
    for run in runs:
        if run.finding:
            print(f"\n{run.target.name}: replay it with: python -m tests.fuzz {run.target.name} --replay {run.finding}")
        elif run.code:
            print(f"\n{run.target.name}: its process failed with code {run.code}, see {run.log}")
        if run.code:
            print("\n".join(f"  {line}" for line in _cause(run.log)))
    if any(run.finding for run in runs):
        return 1
    return 2 if any(run.code for run in runs) else 0


def _cause(log: Path) -> list[str]:
    """Return the end of the last traceback in a log, or of the log."""
    lines = log.read_text(errors="replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    if not starts:
        return lines[-10:]
    ends = (number for number in range(starts[-1] + 1, len(lines)) if not lines[number].startswith((" ", "\t")))
    end = next(ends, len(lines) - 1)
    return lines[max(starts[-1], end - 6) : end + 1]


def _replay(targets: Sequence[Target], file: Path) -> int:
    if len(targets) != 1:
        print("--replay needs one target", file=sys.stderr)
        return 2
    try:
        data = file.read_bytes()
    except OSError as error:
        print(f"the input cannot be read: {error}; findings are below {WORK / 'findings'}", file=sys.stderr)
        return 2
    print(f"{len(data)} bytes: {data[:200]!r}{'...' if len(data) > 200 else ''}")
    try:
        Guard(targets[0]).attempt(data)
    except Exception:
        traceback.print_exc()
        return 1
    print("nothing is wrong")
    return 0


def _keep(targets: Sequence[Target]) -> int:
    for target in targets:
        found = {*files_in(WORK / "corpus" / target.name), *kept(target.name)} - set(target.seeds)
        inputs = reaching_more(target, found)
        print(f"{target.name}: {keep(target.name, inputs)} of {len(found)} inputs are kept", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
