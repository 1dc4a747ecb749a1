"""The page about scenarios and measurements of one's own does what it says."""

from tests.kits.how_to import HowTo


def test_its_scenario_and_its_measurement_are_used_like_the_testbeds_own(tmp_path):
    page = HowTo("docs/how-to/own-measurement.md", tmp_path)
    page.write_files()
    tested, saved, gated = map(page.type, page.commands)
    assert "1 passed" in tested
    assert "short-pods · short · 40 pods · 3 nodes" in tested
    assert "most_on_a_node" in (tmp_path / "baseline.json").read_text()
    assert "baseline.json" in saved
    assert "1 passed" in gated
    assert "gate" in gated
