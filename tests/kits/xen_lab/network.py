"""The lab's network: this machine, dom0 and all guests are on one link, whose end here is a tap device."""

from __future__ import annotations

import subprocess
from pathlib import Path

TAP = "carico-xen"
_LAN = "10.93.7"
PREFIX = 24
MACHINE = f"{_LAN}.1"
DOM0 = f"{_LAN}.2"
GUESTS = tuple(f"{_LAN}.{number}" for number in range(11, 31))


def owner(devices: Path = Path("/sys/class/net")) -> Path | None:
    """Return the folder of the lab that has the tap device; None if there is no device."""
    device = devices / TAP
    return Path((device / "ifalias").read_text(encoding="utf-8").strip() or "/") if device.exists() else None


def connect(folder: Path) -> None:
    """Make the tap device of the lab in `folder`, with routes to the pods of every guest."""
    _ip("link delete", missing_is_fine=True)
    _ip("tuntap add", "mode", "tap")
    _ip("link set", "alias", str(folder), "up")
    _ip("address add", f"{MACHINE}/{PREFIX}")
    for guest in GUESTS:
        pods = f"10.244.{guest.rpartition('.')[2]}.0/24"
        subprocess.run(["ip", "route", "replace", pods, "via", guest, "dev", TAP, "onlink"], check=True)


def disconnect() -> None:
    """Remove the tap device, and with it its routes."""
    _ip("link delete", missing_is_fine=True)


def _ip(what: str, *arguments: str, missing_is_fine: bool = False) -> None:
    command = ["ip", *what.split(), "dev", TAP, *arguments]
    subprocess.run(command, check=not missing_is_fine, stderr=subprocess.DEVNULL if missing_is_fine else None)
