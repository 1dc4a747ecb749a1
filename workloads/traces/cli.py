"""The readers' command line: results go to standard output, a summary of what was read to standard error.

Exit codes: 0 done, 2 a wrong argument or a file that is not what it should be.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from workloads.command_line import Parser, whole
from workloads.errors import InvalidTrace, WorkloadError
from workloads.scenario import ClusterShape
from workloads.traces.alibaba import read_nodes, read_pods
from workloads.traces.azure import MIN_RUNS, noise_of, read_noise
from workloads.traces.replay import pools_of, scenario_of, scenario_yaml, select

USAGE = 2
CLUSTER = ClusterShape(nodes=10, cores=96, memory="384Gi")
"""The cluster if no list of nodes is given, of a kind of node that is frequent in the trace."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (the process's by default) name and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        product: str = options.run(options)
    except WorkloadError as error:
        print(f"workloads.traces: {error}", file=sys.stderr)
        return USAGE
    print(product, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m workloads.traces",
        description="Reads public traces: what a run needs goes to standard output, what was read to standard error.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    alibaba = commands.add_parser(
        "alibaba",
        help="a scenario from a pod list of Alibaba's GPU cluster trace of 2023",
        description="Prints a scenario in which pods of Alibaba's GPU cluster trace of 2023 arrive as they did there, "
        "do as much work as they requested CPU over their lifetime, and use the memory that they requested.",
        epilog="example: python -m workloads.traces alibaba openb_pod_list_default.csv --from-s 9990000 --pods 200 "
        "--time-scale 100 --usage 0.5 > scenario.yaml; carico-testbed run scenario.yaml",
    )
    alibaba.add_argument("pods_csv", metavar="PODS.csv", type=Path, help="openb_pod_list_*.csv")
    alibaba.add_argument(
        "--nodes",
        metavar="NODES.csv",
        type=Path,
        help=f"openb_node_list_*.csv (default: {CLUSTER.nodes} nodes of {CLUSTER.cores} cores and {CLUSTER.memory})",
    )
    alibaba.add_argument(
        "--node-count", metavar="N", type=whole(range(1, 1_000_001)), help="only the first N nodes of the list"
    )
    alibaba.add_argument("--pods", metavar="N", type=whole(range(1, 1_000_001)), help="only the first N pods")
    alibaba.add_argument("--from-s", metavar="S", type=float, default=0.0, help="only pods created then or later")
    alibaba.add_argument("--to-s", metavar="S", type=float, default=math.inf, help="only pods created before")
    alibaba.add_argument("--time-scale", metavar="X", type=float, default=1.0, help="pods arrive X times as fast")
    alibaba.add_argument(
        "--lifetime-scale", metavar="X", type=float, help="lifetimes are divided by X (default: the time scale)"
    )
    alibaba.add_argument(
        "--usage", metavar="X", type=float, default=1.0, help="CPU used per CPU requested (default: 1)"
    )
    alibaba.add_argument(
        "--memory-usage", metavar="X", type=float, default=1.0, help="the same for memory (default: 1)"
    )
    alibaba.set_defaults(run=_alibaba)
    azure = commands.add_parser(
        "azure",
        help="settings for the noise of machines from the Azure VM Noise Dataset 2024",
        description="Prints the settings of the simulated cluster that stand for the noise in a file of the Azure VM "
        "Noise Dataset 2024.",
        epilog="example: carico-testbed run pi-2000 $(python -m workloads.traces azure 'unit=Bogo Ops_s.csv')",
    )
    azure.add_argument("file_csv", metavar="FILE.csv", type=Path, help="value,runtime,starttime,VM_id")
    azure.set_defaults(run=_azure)
    return parser


def _alibaba(options: argparse.Namespace) -> str:
    pods = read_pods(options.pods_csv)
    cluster = CLUSTER
    if options.nodes is not None:
        cluster = ClusterShape(pools=pools_of(read_nodes(options.nodes)[: options.node_count]))
    elif options.node_count is not None:
        raise InvalidTrace("--node-count applies to a list of nodes: give --nodes, too")
    selection = select(pods, cluster, from_s=options.from_s, to_s=options.to_s, count=options.pods)
    scenario = scenario_of(
        selection.pods,
        cluster,
        time_scale=options.time_scale,
        lifetime_scale=options.lifetime_scale,
        usage=options.usage,
        memory_usage=options.memory_usage,
    )
    with_gpus = sum(pod.gpus > 0 for pod in selection.pods)
    _say(
        f"{options.pods_csv}: {len(pods)} pods, {len(selection.pods)} taken, as {len(scenario.jobs)} jobs on "
        f"{len(cluster.each_node)} nodes"
    )
    for reason, number in selection.left_out.items():
        _say(f"left out: {number} {reason}")
    _say(f"GPUs are ignored: {with_gpus} of the pods requested some")
    return scenario_yaml(scenario).rstrip()


def _azure(options: argparse.Namespace) -> str:
    noise = noise_of(read_noise(options.file_csv))
    _say(f"{options.file_csv}: {noise.samples} runs on {noise.vms} VMs")
    if noise.over_time is None:
        _say(f"over time: unknown, as no VM has {MIN_RUNS} runs; the next figure has both kinds of noise together")
    else:
        _say(f"over time: {noise.over_time:.2%} (the outermost 5 % of the runs at each end do not count)")
    if noise.between_vms is None:
        _say("between VMs: unknown, as there is only one")
    else:
        _say(f"between VMs: {noise.between_vms:.2%} of their medians")
    return " ".join(f"--set {name}={value:g}" for name, value in noise.settings.items())


def _say(line: str) -> None:
    print(line, file=sys.stderr)
