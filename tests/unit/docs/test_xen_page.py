"""The descriptions of Xen guests that the page shows can be used as they are."""

import yaml

from testbed.real.xen.description import XenApiHost, XlHost, read_description
from tests.kits.how_to import HowTo


def test_its_descriptions_are_valid(tmp_path):
    blocks = [content for language, content in HowTo("docs/how-to/xen.md", tmp_path).blocks if language == "yaml"]
    host, plane, pool = map(yaml.safe_load, blocks)
    of_template = ("kernel", "ramdisk")
    in_pool = {name: value for name, value in host["guests"].items() if name not in of_template} | pool["guests"]
    file = tmp_path / "guests.yaml"
    for document, kind in [
        (host, XlHost),
        (host | plane, XlHost),
        ({"host": pool["host"], "guests": in_pool}, XenApiHost),
    ]:
        file.write_text(yaml.safe_dump(document))
        described = read_description(file)
        assert isinstance(described.host, kind)
        assert described.workers == (3 if document.get("control_plane") else 2)
