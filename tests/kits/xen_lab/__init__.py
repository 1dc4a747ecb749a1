"""Test kit: a host of Xen on a machine that has none, emulated by QEMU, with a control plane beside it.

``scripts/xen-lab up`` starts it; docs/how-to/xen.md says what it is. Its timings prove nothing: behaviour does.
"""
