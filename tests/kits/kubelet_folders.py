"""Where kubelets put the control groups of pods, below the root of a hierarchy."""


def cgroupfs(root, klass, uid):
    return root.joinpath("kubepods", *[klass] * (klass != "guaranteed"), f"pod{uid}")


def systemd(root, klass, uid):
    middle = [f"kubepods-{klass}.slice"] * (klass != "guaranteed")
    prefix = "kubepods" if klass == "guaranteed" else f"kubepods-{klass}"
    return root.joinpath("kubepods.slice", *middle, f"{prefix}-pod{uid.replace('-', '_')}.slice")


def kind_systemd(root, klass, uid):
    """The kubelet of kind has a control group root of its own."""
    middle = [f"kubelet-kubepods-{klass}.slice"] * (klass != "guaranteed")
    prefix = "kubelet-kubepods" if klass == "guaranteed" else f"kubelet-kubepods-{klass}"
    folder = root.joinpath("kubelet.slice", "kubelet-kubepods.slice", *middle)
    return folder / f"{prefix}-pod{uid.replace('-', '_')}.slice"
