"""The subcommands of `carico-testbed`, related ones in one module, and what they share."""

DESCRIPTION = (
    "Measures what a Kubernetes scheduler does to real jobs. By default jobs run on an embedded simulated cluster: in "
    "seconds, without set-up, and with the same results for the same seed."
)
HELP = {
    "list": "show the scenarios, schedulers and settings",
    "run": "run a scenario under schedulers and show the completion times",
    "sweep": "run a scenario over many values of one thing, such as kube-scheduler's CPU request",
    "redraw": "draw a sweep again from its results",
    "runs": "show the runs that were started in this folder",
    "recover": "write the finished repetitions of a run that has ended early to a results file",
    "compare": "show what changed from one run to another",
    "report": "make one HTML page of runs: verdicts, figures, data",
    "claims": "show which claims of a paper held in sessions of pytest",
    "schema": "print the JSON Schema of a file that runs leave",
    "images": "build the programs and images of real clusters, where no image can be pulled",
    "clean": "remove real clusters that were kept, or left by a killed run",
    "validate": "run the same scenario on kind and on the simulated cluster, and compare",
    "completion": "print a script that completes commands and options in a shell",
}
"""What each command is for; here, so that it can be told whatever is installed."""
