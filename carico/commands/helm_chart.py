"""``carico helm-chart``: writes the Helm chart; needs the extra `scheduler`."""

from __future__ import annotations

import argparse
from pathlib import Path

from carico.commands import Commands
from carico.errors import InvalidInput


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "helm-chart",
        help="write a Helm chart of CARICO into a folder",
        description=(
            "Writes a Helm chart that installs what `carico deploy` applies, without the namespace and certificates: "
            "`carico deploy --only-certificates` makes these. A chart that is in the folder is replaced."
        ),
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the chart's folder, which is made if need be")
    parser.set_defaults(run=_write)


def _write(options: argparse.Namespace) -> None:
    from carico.deployment.helm import chart

    folder: Path = options.folder
    declaration = folder / "Chart.yaml"
    if folder.exists() and any(folder.iterdir()) and not _is_ours(declaration):
        raise InvalidInput(f"{folder} is not empty and holds no chart of CARICO's: name another folder")
    for name, text in chart().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    print("next: carico deploy --only-certificates, and then")
    print(f"      helm install carico {folder} --namespace carico --set image=REGISTRY/NAME:TAG")


def _is_ours(declaration: Path) -> bool:
    return declaration.is_file() and "\nname: carico\n" in declaration.read_text(encoding="utf-8", errors="replace")
