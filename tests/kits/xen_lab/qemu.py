"""The command line of the machine that QEMU emulates: its CPU, and its boot into Xen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROGRAM = "qemu-system-x86_64"
MEMORY_MIB = 4096
QUIET = "console=hvc0 loglevel=4 systemd.show_status=error"
"""Arguments for kernels; every character on an emulated console takes time."""
DOM0_MIB = 512

# Named features only: with `-cpu max`, dom0 crashes.
_CPU = "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand"
# Guests of type pvh crash with npt, the nested page tables of the emulated CPU. Without npt, the hypervisor itself
# keeps shadows of the guests' page tables.
_VIRTUALISATION = {"pv": "-svm", "pvh": "+svm,-npt"}
GUEST_TYPES = tuple(_VIRTUALISATION)
"""Types of guests that the machine can run; those of type hvm need a device model, which dom0 does not have."""
# bootscrub=0: the hypervisor does not wipe the memory at boot, so QEMU takes only what is used. The mitigations against
# attacks of one guest on another only cost time here.
_XEN = (
    f"dom0_mem={DOM0_MIB}M,max:{DOM0_MIB}M dom0_max_vcpus=2 console=com1 com1=115200,8n1 bootscrub=0 spec-ctrl=no "
    f"xpti=no"
)
_DOM0 = f"root=/dev/vda {QUIET} net.ifnames=0 psi=1 mitigations=off random.trust_cpu=on"


def qemu_command(
    host: Path, guest_disk: Path, settings: Path, tap: str, console: Path, guest_type: str
) -> Sequence[str]:
    """Return the command.

    Parameters
    ----------
    host : Path
        The folder of the host's image. What dom0 writes goes into a temporary file, which nobody can see.
    guest_disk, settings : Path
        dom0's second and third disk, read-only.
    tap : str
        The network device on this machine.
    console : Path
        Takes what the hypervisor and dom0 print.
    guest_type : str
        One of `GUEST_TYPES`, for all guests.
    """
    cpu = f"{_CPU},{_VIRTUALISATION[guest_type]}"
    command = [PROGRAM, "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", cpu, "-smp", "2"]
    command += ["-m", str(MEMORY_MIB), "-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{console}"]
    command += ["-kernel", str(host / "xen"), "-append", _XEN]
    command += ["-initrd", f"{host / 'vmlinux'} {_DOM0},{host / 'initrd'}"]
    command += ["-drive", f"file={host / 'disk'},format=raw,if=virtio,cache=unsafe,snapshot=on"]
    for disk in (guest_disk, settings):
        command += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe,readonly=on"]
    command += ["-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no", "-device", "virtio-net-pci,netdev=net"]
    return [*command, "-device", "virtio-rng-pci"]
