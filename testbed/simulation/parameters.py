"""The parameters of the simulated cluster, each with its source; `--set key=value` changes one.

Calibrated on kube-scheduler's rows of the thesis's Tables 5.1 to 5.3 and on nothing else (`docs/design.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from carico.model.variants import SAMPLES_PER_S
from testbed.errors import InvalidSetting, suggested
from testbed.simulation.parameter_sets import DEFAULT, PARAMETER_SETS
from workloads.errors import Misfit
from workloads.fitting import fitted

Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=3600)]
ShortSeconds = Annotated[float, Meta(ge=0, le=60)]
TimeConstant = Annotated[float, Meta(gt=0, le=86_400)]
Rate = Annotated[float, Meta(gt=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=0)]
BurstSize = Annotated[int, Meta(ge=1, le=1_000_000)]
Cpus = Annotated[float, Meta(ge=0, le=1024)]
TickSeconds = Annotated[float, Meta(ge=0.001, le=0.1)]
Variation = Annotated[float, Meta(ge=0, le=10)]
SpeedNoise = Annotated[float, Meta(ge=0, le=2)]
StolenShare = Annotated[float, Meta(ge=0, lt=1)]
Weight = Annotated[float, Meta(ge=0, le=1e9)]
WakeUps = Annotated[int, Meta(ge=0, le=1000)]
ScrapePeriod = Annotated[float, Meta(ge=1, le=3600)]

SET = "parameters"
"""The setting that names a set of parameters."""
SAMPLE_PERIOD_S = 1 / SAMPLES_PER_S
"""The telemetry period."""


class SimulationParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How nodes, kubelets, the API server and kube-scheduler behave."""

    # Nodes
    pressure: Annotated[
        Literal["kernel", "at-least-one-waiting"],
        Meta(
            description="What `some` CPU pressure means: per CPU as psi.c computes it, or the thesis's wording "
            "(§4.2.1)."
        ),
    ] = "kernel"
    quota_of_cpus: Annotated[
        Cpus,
        Meta(
            description="CPUs of the machine that all nodes have a quota of, as kind's have; 0 for nodes with CPUs of "
            "their own. Threads run side by side there until the quota is used up, and being throttled is pressure."
        ),
    ] = 0.0
    tick_s: Annotated[
        TickSeconds,
        Meta(
            description="Step of the nodes' CPU sharing, and the telemetry period of 10 Hz divided by a whole number."
        ),
    ] = 0.1
    warm_up_s: Annotated[
        Seconds, Meta(description="Idle time before the scenario begins, in which agents get to know their nodes.")
    ] = 30.0
    background_cores: Annotated[
        float,
        Meta(ge=0, le=64, description="CPU that the operating system and the platform's own pods use on every node."),
    ] = 0.2
    background_variation: Annotated[
        Variation,
        Meta(
            description="Coefficient of variation of background_cores from tick to tick (gamma): daemons wake up "
            "irregularly."
        ),
    ] = 0.5
    background_cores_per_pod: Annotated[
        Share, Meta(description="CPU that kubelet and runtime spend on every running pod (statistics, probes, shims).")
    ] = 0.015
    background_memory: Annotated[Share, Meta(description="Share of a node's memory that system and platform hold.")] = (
        0.14
    )
    background_memory_variation: Annotated[
        Share, Meta(description="Coefficient of variation of background_memory from sample to sample (normal).")
    ] = 0.0032
    contention_loss: Annotated[
        Share,
        Meta(
            description="Share of the CPU that is lost at full pressure (cache and context switches); VMs mask it "
            "(§5.7)."
        ),
    ] = 0.0
    node_speed_variation: Annotated[Share, Meta(description="Coefficient of variation of the speed between nodes.")] = (
        0.0
    )
    speed_noise: Annotated[
        SpeedNoise,
        Meta(
            description="Coefficient of variation of every node's speed over time, as a hypervisor gives it (Azure VM "
            "Noise: 0.01 on dedicated, 0.09 on burstable machines)."
        ),
    ] = 0.0
    speed_noise_s: Annotated[
        TimeConstant, Meta(description="How long a deviation of the speed lasts (time constant).")
    ] = 10.0
    steal: Annotated[
        StolenShare,
        Meta(description="Share of a node's CPUs that neighbours on its host take while they are busy (steal time)."),
    ] = 0.0
    steal_duty: Annotated[Share, Meta(description="Share of the time in which the neighbours are busy.")] = 0.5
    steal_episode_s: Annotated[TimeConstant, Meta(description="Mean length of a busy episode (exponential).")] = 10.0
    host_limit: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of all nodes' CPUs whose work the host of the virtual machines can do at once, for "
            "example because they share its memory bandwidth; 1 for no limit.",
        ),
    ] = 1.0
    system_weight: Annotated[
        Weight,
        Meta(
            description="cgroup v2 weight of system.slice; kubepods has the weight of all the node's cores, 157 for 4 "
            "of them."
        ),
    ] = 100.0
    # Kubelet and container runtime
    platform_millicpu: Annotated[
        Count,
        Meta(description="Requests of the platform's own pods on every node: 7 slots remain at 500m, 38 at 100m."),
    ] = 200
    platform_memory_mib: Annotated[
        Count,
        Meta(description="The memory that the platform's pods request, MiB; what they hold is in background_memory."),
    ] = 200
    start_cpu_s: Annotated[
        ShortSeconds,
        Meta(
            description="CPU-seconds that the runtime spends on starting a container: a burst of about 200 ms (§4.2.2)."
        ),
    ] = 0.2
    started_cpu_s: Annotated[
        ShortSeconds,
        Meta(description="CPU-seconds that kubelet and runtime still spend on a start when the container runs."),
    ] = 0.0
    stop_cpu_s: Annotated[
        ShortSeconds, Meta(description="CPU-seconds that the runtime spends on stopping a container.")
    ] = 0.2
    burst_processes: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Processes of the runtime that start or stop a container at once (shim, runc, init, ...).",
        ),
    ] = 6
    start_delay_min_s: Annotated[
        Seconds,
        Meta(
            description="Least waiting, not computing, between binding and the start of the container (sandbox, "
            "network, volumes)."
        ),
    ] = 0.5
    start_delay_max_s: Annotated[Seconds, Meta(description="Most waiting between binding and the start.")] = 1.0
    starts_per_s: Annotated[Rate, Meta(description="Containers that a kubelet starts per second at most.")] = 4.0
    running_visible_min_s: Annotated[
        Seconds,
        Meta(description="Least time until the API shows a started pod as Running: the kubelet relists once a second."),
    ] = 0.3
    running_visible_max_s: Annotated[
        Seconds, Meta(description="Most time until a started pod is shown as Running.")
    ] = 1.3
    finished_visible_min_s: Annotated[
        Seconds, Meta(description="Least time until the API shows that a pod completed.")
    ] = 0.2
    finished_visible_max_s: Annotated[Seconds, Meta(description="Most time until the API shows the completion.")] = 1.0
    # Requests to servers
    request_base_s: Annotated[
        ShortSeconds, Meta(description="What a request takes beside waiting and computing: network and protocols.")
    ] = 0.0008
    wake_ups_per_request: Annotated[
        WakeUps,
        Meta(
            description="Threads that a request wakes one after the other, in client, kernel and server (fitted to "
            "Table 5.4)."
        ),
    ] = 6
    idle_wake_up_s: Annotated[
        ShortSeconds, Meta(description="Time until an idle CPU of a virtual machine is awake.")
    ] = 0.00034
    idle_wake_up_cv: Annotated[
        float, Meta(gt=0, le=10, description="Coefficient of variation of idle_wake_up_s (gamma).")
    ] = 0.7
    turn_s: Annotated[
        ShortSeconds,
        Meta(
            description="Wait for a busy CPU per runnable thread of the server's weight that queues there (mean of an "
            "exponential)."
        ),
    ] = 0.00029
    # API server, Job controller, kube-scheduler
    watch_latency_s: Annotated[
        Seconds, Meta(description="Time until a watcher hears of a new or bound pod: assumed, not measured.")
    ] = 0.02
    pod_creations_per_s: Annotated[
        Rate,
        Meta(
            description="Pods that the Job controller creates per second: kube-controller-manager's default "
            "kube-api-qps."
        ),
    ] = 20.0
    pod_creations_burst: Annotated[
        BurstSize,
        Meta(description="Pods that the Job controller creates at once after a pause: the default kube-api-burst."),
    ] = 30
    scheduling_attempts_per_s: Annotated[
        Rate, Meta(description="Measured with the real kube-scheduler on 2 cores and 1,000 nodes.")
    ] = 175.0
    bindings_per_s: Annotated[
        Rate,
        Meta(
            description="Bindings that kube-scheduler's client asks for per second: the default qps of its "
            "clientConnection."
        ),
    ] = 50.0
    bindings_burst: Annotated[
        BurstSize, Meta(description="Bindings that this client asks for at once after a pause: the default burst.")
    ] = 100
    bind_latency_s: Annotated[
        Seconds,
        Meta(
            description="What a binding call takes, while the next pod is already being scheduled: assumed, not "
            "measured."
        ),
    ] = 0.02
    backoff_initial_s: Annotated[
        PositiveSeconds,
        Meta(description="Wait after a pod's first refusal, doubled with each further one: podInitialBackoffSeconds."),
    ] = 1.0
    pop_from_backoff: Annotated[
        bool,
        Meta(
            description="Whether pods are taken out of the back-off queue while no other pod waits, as kube-scheduler "
            "does from 1.33 on."
        ),
    ] = False
    queueing_hints: Annotated[
        bool,
        Meta(
            description="Whether pods that an extender such as CARICO's refused are tried again when any pod is bound "
            "or starts to run, as from Kubernetes 1.32 on, and not only when one ends."
        ),
    ] = False
    node_grace_s: Annotated[
        Seconds,
        Meta(description="Time until a silent node is NotReady and gets no more pods: node-monitor-grace-period."),
    ] = 40.0
    eviction_s: Annotated[
        Seconds,
        Meta(description="Time until the pods of a NotReady node are evicted: the default tolerationSeconds."),
    ] = 300.0
    backoff_max_s: Annotated[
        PositiveSeconds, Meta(description="The longest wait of a refused pod: podMaxBackoffSeconds.")
    ] = 10.0
    # CARICO's scheduler, as `carico deploy` runs it
    carico_backoff_max_s: Annotated[
        PositiveSeconds,
        Meta(description="podMaxBackoffSeconds of CARICO's own kube-scheduler, carico/manifests/kube-scheduler.yaml."),
    ] = 1.0
    wake_up: Annotated[
        bool, Meta(description="Whether CARICO's refused pods are tried again as soon as a node has room for one.")
    ] = True
    # Agents
    agents: Annotated[
        bool, Meta(description="Whether CARICO's agents run beside a scheduler that does not listen to them.")
    ] = False
    agent_cores: Annotated[
        float, Meta(ge=0, le=64, description="CPU that an agent uses on its node: measured on kind.")
    ] = 0.0054
    pod_events: Annotated[
        Literal["containerd", "kubernetes", "kubernetes-running"],
        Meta(
            description="What tells agents of pods: the container runtime; the Kubernetes API, from the binding to the "
            "end; or the same from Running on, as the thesis had it first (§4.2.4)."
        ),
    ] = "containerd"
    telemetry: Annotated[
        Literal["procfs", "metrics-server"],
        Meta(
            description="What agents read: the kernel's counters, or what the metrics server last scraped, which has "
            "no pressure."
        ),
    ] = "procfs"
    metrics_period_s: Annotated[
        ScrapePeriod,
        Meta(
            description="How often the metrics server scrapes, and what it averages over: its default "
            "--metric-resolution."
        ),
    ] = 15.0
    telemetry_delay_s: Annotated[Seconds, Meta(description="Age of a sample when the agent gets it.")] = 0.0
    report_delay_s: Annotated[Seconds, Meta(description="Age of a report when the scheduler gets it.")] = 0.0
    report_loss: Annotated[Share, Meta(description="Probability that a report does not reach the scheduler.")] = 0.0
    sample_loss: Annotated[Share, Meta(description="Probability that an agent misses a telemetry sample.")] = 0.0
    sample_late: Annotated[Share, Meta(description="Probability that a sample arrives after the next one.")] = 0.0

    def __post_init__(self) -> None:
        for name in ("start_delay", "running_visible", "finished_visible"):
            low, high = getattr(self, f"{name}_min_s"), getattr(self, f"{name}_max_s")
            if low > high:
                raise ValueError(f"{name}_min_s must not exceed {name}_max_s, got {low} and {high}")
        for name in ("backoff_max_s", "carico_backoff_max_s"):
            initial, longest = self.backoff_initial_s, getattr(self, name)
            if initial > longest:
                raise ValueError(f"backoff_initial_s must not exceed {name}, got {initial} and {longest}")
        if not _is_whole(SAMPLE_PERIOD_S / self.tick_s):
            raise ValueError(f"tick_s must divide the telemetry period of {SAMPLE_PERIOD_S} s, got {self.tick_s}")
        if not _is_whole(self.warm_up_s / SAMPLE_PERIOD_S):
            raise ValueError(f"warm_up_s must be a multiple of {SAMPLE_PERIOD_S} s, got {self.warm_up_s}")


def _is_whole(ratio: float) -> bool:
    return abs(ratio - round(ratio)) < 1e-6


def parameters_from(settings: Mapping[str, Any]) -> SimulationParameters:
    """Return the parameters that `settings` give (values, or their text, by name), on top of a named set.

    Raises
    ------
    InvalidSetting
        If a name is unknown (the message lists the known ones) or a value is invalid.

    Examples
    --------
    >>> parameters_from({"parameters": "kind", "start_cpu_s": "0.3"}).start_cpu_s
    0.3
    """
    own = {name: value for name, value in settings.items() if name != SET}
    known = SimulationParameters.__struct_fields__
    unknown = sorted(set(own) - set(known))
    if unknown:
        meant = suggested(unknown[0], (SET, *known))
        raise InvalidSetting(f"no setting is named {', '.join(map(repr, unknown))}{meant}")
    named = settings.get(SET, DEFAULT)
    if named not in PARAMETER_SETS:
        raise InvalidSetting(f"no set of parameters is named {named!r}{suggested(str(named), PARAMETER_SETS)}")
    try:
        parameters: SimulationParameters = fitted({**PARAMETER_SETS[named], **own}, SimulationParameters, strict=False)
    except Misfit as error:
        given = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise InvalidSetting(f"cannot set {given}: {error}") from error
    return parameters


def choices(name: str) -> tuple[str, ...]:
    """Return the values from which a setting is chosen; nothing if it is a number or a switch.

    Examples
    --------
    >>> choices("pressure"), choices("tick_s")
    (('kernel', 'at-least-one-waiting'), ())
    """
    kind = _kinds()[name]
    return get_args(kind) if get_origin(kind) is Literal else ()


@cache
def _kinds() -> dict[str, Any]:
    # Once: reading the hints of all settings takes a while.
    return get_type_hints(SimulationParameters)
