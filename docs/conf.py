"""The site of the documentation (Sphinx with MyST): `tox -e docs`, warnings as errors, nothing from the network."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[1]

project = "CARICO and its testbed"
author = "The CARICO maintainers"
project_copyright = author
extensions = ["myst_parser"]
# The sources' root is the repository's, so that links between docs/ and the pages beside it are ordinary links.
include_patterns = ["docs/**.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]
source_suffix = {".md": "markdown"}
exclude_patterns = [".*", "build", "site"]
root_doc = "docs/index"
myst_heading_anchors = 4
html_theme = "furo"
html_title = project
html_copy_source = False
html_extra_path = ["site_root"]
"""Has the page that sends readers of the site's root to docs/index.html."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^]]+)\]\((?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")


def without_links_to_sources(app: Sphinx, page: str, source: list[str]) -> None:
    """Write links to files that are no pages, such as modules, as their paths in the repository."""
    folder = (ROOT / page).parent

    def shown(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        if ":" in target or target.endswith(".md"):
            return link[0]  # Sphinx checks that the page exists
        path = os.path.relpath(folder / target, ROOT)
        if not (ROOT / path).exists():
            logging.getLogger(__name__).warning("there is no %s", path, location=page)
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    source[0] = _LINK.sub(shown, source[0])


def setup(app: Sphinx) -> None:
    """Let pages be rewritten before they are parsed."""
    app.connect("source-read", without_links_to_sources)
