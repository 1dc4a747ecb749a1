"""Xen: the nodes are virtual machines on a Xen host, or in a XenServer or XCP-ng pool, that the user describes."""
