"""Where in a YAML text a value is that is wrong: people look for a line."""

from __future__ import annotations

import yaml

from workloads.errors import Key, Misfit, WorkloadError


def placed(error: WorkloadError, text: str, loader: type[yaml.SafeLoader]) -> str:
    """Return the message of an error about a YAML text with the line of the value, or of what should have it.

    Parameters
    ----------
    error : WorkloadError
        Its path leads to the value.
    text : str
        A valid YAML text.
    loader : type
        The loader that read it.

    Returns
    -------
    str
        For example ``line 7: pods: a whole number from 1 on is needed, got 'five'``.
    """
    reader = loader(text)
    node = reader.get_single_node()
    line = 0 if node is None else node.start_mark.line
    for step in error.path:
        key, node = _child(node, step, reader)  # nothing where the value is a default, or comes from a merge (<<)
        if (found := key or node) is not None:
            line = found.start_mark.line
    return f"line {line + 1}: {error.brief if isinstance(error, Misfit) else error}"


def _child(node: yaml.Node | None, step: Key, reader: yaml.SafeLoader) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key, if it has one, and the value at a step of a path; nothing where the path leads nowhere."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if (key.value if isinstance(step, str) else _read(key, reader)) == step:
                return key, value
        return None, None
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def _read(key: yaml.Node, reader: yaml.SafeLoader) -> Key:
    """Return a key as the document has it; the merge key (<<) is not in it."""
    return "<<" if key.tag == "tag:yaml.org,2002:merge" else reader.construct_object(key, deep=True)
