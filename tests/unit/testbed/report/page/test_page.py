"""The report as HTML, without a browser: what it says, that nothing of it runs or loads, and how large it is."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import msgspec
import pytest

import testbed.requirements
from testbed.comparison.conditions import conditions
from testbed.comparison.gate import judge, judge_schedulers
from testbed.comparison.measured import measured
from testbed.errors import MissingExtra, ResultsError
from testbed.report.page import page as page_module
from testbed.report.page.page import page, write_page
from tests.kits.many_results import (
    EVIL,
    failed_gate,
    incomplete,
    isolation,
    paper,
    reading,
    renamed,
    requests_compared,
    simulated,
)


class Parsed(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], "", []
        self.panels = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag == "svg":
            self.panels.append((attributes, []))
        elif self.panels:
            self.panels[-1][1].append((tag, attributes))

    def handle_data(self, data):
        self.text += data

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def compared():
    return requests_compared()


@pytest.fixture(scope="module")
def served():
    return isolation()


@pytest.fixture(scope="module")
def html(compared, served):
    return page([reading([*compared, *served], outcomes=paper())])


@pytest.fixture(scope="module")
def parsed(html):
    return Parsed(html)


def test_verdicts_come_first(html):
    places = [html.index(f">{text}<") for text in ("Verdicts", "Against the best request in hindsight")]
    assert places == sorted(places)
    assert places[-1] < html.index("Job completion time")
    assert html.index("Compared with carico, the job ") < places[-1]


class TestGate:
    TITLE = "pi-2000 · 12 pods · 2 nodes · carico"

    def test_it_comes_before_the_verdicts_with_what_regressed(self, compared):
        text = page([reading(compared, gate=failed_gate(compared))])
        found = Parsed(text).text
        assert text.index(">Gate<") < text.index(">Verdicts<")
        assert "gate: FAILED (3 ok, 6 regressed)" in found
        assert f"{self.TITLE}: job_completion_time (pi-2000) went from " in found
        assert "(+100.0 %, n = 3; allowed +5%)" in found
        assert 'class="gate failed"' in text

    def test_every_condition_is_a_line(self, compared):
        gate = failed_gate(compared)
        section = re.search(r'id="gate">(.*?)</section>', page([reading(compared, gate=gate)]), re.DOTALL)[1]
        assert section.count(f"<h3>{self.TITLE}</h3>") == 1
        line = re.search(r"<tr>\s*<th[^>]*><span>job_completion_time.*?</tr>", section, re.DOTALL)[0]
        cells = [re.sub(r"<.*?>", "", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", line, re.DOTALL)]
        judged = gate.judgements[0].found
        assert cells[0] == f"{judged.reference:.4g} s"
        assert cells[1] == f"{judged.candidate:.4g} s"
        assert cells[2:4] == ["+5%", "+100.0 %"]
        assert cells[-1] == "▲ regressed"

    def test_its_figures_are_data(self, compared):
        parsed = Parsed(page([reading(compared, gate=failed_gate(compared))]))
        link = next(one for one in parsed.of("a") if one.get("download") == "gate.csv")
        head, first, *_ = unquote(link["href"].partition(",")[2]).splitlines()
        assert head == "title,figure,condition,baseline,now,effect,is_ratio,low,high,verdict"
        assert first.startswith(f"{self.TITLE},job_completion_time (pi-2000),job_completion_time:+5%,")
        assert first.endswith(",2,True,2,2,regressed")

    def test_a_gate_that_passes_says_so(self, compared):
        found = measured(compared)
        text = page([reading(compared, gate=judge(found, found, conditions(["job_completion_time:+5%"])))])
        assert "gate: passed (3 ok)" in text
        assert 'class="gate passed"' in text

    def test_without_a_baseline_the_reference_is_named(self, compared):
        gate = judge_schedulers(measured(compared), None, conditions(["job_completion_time:+900%"]))
        text = page([reading(compared, gate=gate)])
        assert "judged by the reference of each table" in text
        assert '<p class="sentence">Judged by carico.</p>' in text
        assert '<th scope="col">reference</th><th scope="col">now</th>' in text

    def test_a_gate_that_judged_nothing_says_why(self, compared):
        text = page([reading(compared, gate=judge([], measured(compared), conditions(["job_completion_time:+5%"])))])
        assert "gate: FAILED (nothing was judged; measured, but not in the baseline: 3)" in text
        assert "nothing was compared: the baseline and this run have no scenario and scheduler in common" in text
        assert "gate.csv" not in text

    def test_what_was_not_measured_has_no_change(self, compared):
        condition = conditions(["job_completion_time:+5%"])
        before = measured(compared[:3], [one.figure for one in condition])
        (series,) = before[0].series
        lacking = msgspec.structs.replace(series, values=[None, *series.values[1:]])
        gate = judge(before, [msgspec.structs.replace(before[0], series=[lacking])], condition)
        assert '<td data-label="change">1 not measured</td>' in page([reading(compared, gate=gate)])

    def test_figures_that_only_the_session_knew_are_shown(self, compared):
        gated = reading(compared, gate=failed_gate(compared))
        judged = [msgspec.structs.replace(one, metric="of_a_hook", unit="MiB") for one in gated.gate.judgements]
        text = page([replace(gated, gate=msgspec.structs.replace(gated.gate, judgements=judged))])
        assert "<span>of_a_hook (pi-2000)</span>" in text

    def test_every_run_has_its_own(self, compared):
        gated = reading(compared, gate=failed_gate(compared))
        text = page([gated, replace(gated, name="20261121T101530Z-bbbbbb"), reading(compared, "no gate")])
        assert re.findall(r'id="(gate\d?)">\s*<h2>(.*?)</h2>', text) == [
            ("gate", "Gate of 20261120T101530Z-aaaaaa"),
            ("gate2", "Gate of 20261121T101530Z-bbbbbb"),
        ]
        assert "The baseline: base.json (SHA-256 0a0a0a0a0a0a…)." in text

    def test_names_are_shown_and_not_run(self, compared):
        evil = renamed(compared)
        text = page([reading(evil, gate=failed_gate(evil))])
        assert f"job_completion_time ({EVIL}) went from " in Parsed(text).text
        assert EVIL not in text


def test_without_a_gate_there_is_no_word_of_one(html):
    assert 'id="gate"' not in html


def test_every_kind_of_figure_is_there(parsed):
    for title in (
        "Job completion time",
        "Pod completion time",
        "Latency of servers",
        "Running pods per node",
        "Fullest and emptiest node",
        "Utilisation of the cluster",
        "What CARICO's nodes estimate",
    ):
        assert title in parsed.text


def test_what_nodes_learn_under_the_variant_demand_is_drawn():
    html = page([reading([simulated("pi-2000", "carico:variant=demand", 1, 12, 2, warm_up_s=2.0)])])
    assert "What CARICO&#39;s nodes estimate" in html
    for title in ("Cores that a pod of pi-2000 takes", "Memory in GiB that a pod of pi-2000 takes"):
        assert title in html
    assert "Under the variant demand nodes learn" in html


def test_every_figure_has_a_caption_an_alternative_data_and_a_command(html, parsed):
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == 12
    for figure in figures:
        assert len(re.search(r"<figcaption>(.*?)</figcaption>", figure, re.DOTALL)[1]) > 40
        assert "carico-testbed run " in figure
        assert 'download="' in figure
    for attributes, _ in parsed.panels:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 8


def test_no_figure_is_empty(parsed):
    assert len(parsed.panels) > 30
    for attributes, inside in parsed.panels:
        shapes = [one for tag, one in inside if tag in ("path", "circle", "rect")]
        drawn = [one for one in shapes if one.get("class") not in ("grid", "absent", "neutral")]
        assert drawn, attributes["aria-label"]
        assert not any(
            "nan" in str(value) or "inf" in str(value).split() for _, one in inside for value in one.values()
        )


def test_the_data_of_a_figure_are_a_table(parsed, compared):
    link = next(one for one in parsed.of("a") if one.get("download") == "s2-jct.csv")
    head, *rows = unquote(link["href"].partition(",")[2]).splitlines()
    assert head == "scheduler,job,seed,jct_s"
    of_carico = {row.split(",")[2]: float(row.split(",")[3]) for row in rows if row.startswith("carico,")}
    assert of_carico == {
        str(one.seed): pytest.approx(one.job_completion_time_s["pi-2000"], rel=1e-4)
        for one in compared
        if one.scheduler == "carico"
    }


def test_nothing_is_loaded_and_nothing_runs(html, parsed):
    assert not {tag for tag, _ in parsed.elements} & {"script", "iframe", "object", "img", "form"}
    for _, attributes in parsed.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_names_are_shown_and_not_run(compared):
    text = page([reading(incomplete(renamed(compared)), problems=[f"{EVIL}.json:2 is bad"])])
    found = Parsed(text)
    assert "script" not in {tag for tag, _ in found.elements}
    assert f"1 pod evicted under carico: {EVIL} on {EVIL}" in found.text
    assert found.text.count(EVIL) >= 10
    assert EVIL not in text


def test_the_command_of_a_figure_measures_the_same(compared, html):
    command = re.search(r"<pre>(carico-testbed run pi-2000 .*)\n", html)[1]
    assert command == (
        "carico-testbed run pi-2000 --scheduler carico kube-scheduler:cpu=250m kube-scheduler:cpu=2000m --pods 12 "
        "--nodes 2 --repetitions 3 --seed 1 --set warm_up_s=2.0"
    )


def test_changed_settings_are_in_the_command():
    text = page([reading([simulated("pi-2000", pods=4, nodes=1, steal=0.25, wake_up=False)])])
    assert re.search(r"<pre>carico-testbed run .* --seed 1 --set steal=0.25 --set wake_up=false\n", text)


def test_what_no_command_is_certain_to_measure_again_says_so(compared):
    one = msgspec.structs.replace(compared[0], settings=compared[0].settings | {"speed": 2})
    assert "no command is certain to measure it again" in page([reading([one])])


def test_a_job_that_did_not_complete_is_told_and_has_no_verdict_of_its_own(compared):
    found = Parsed(page([reading(incomplete(compared))])).text
    assert "What is missing or failed" in found
    assert "pi-2000 did not complete under carico with seed 1: 11 of 12 pods succeeded" in found
    assert "1 of 3 did not complete" in found


def test_runs_that_differ_have_headings_that_differ(compared):
    found = page([reading(compared), reading(compared, name="20261121T101530Z-bbbbbb")])
    headings = [re.sub(r"<.*?>", "", one) for one in re.findall(r"<h[12]>(.*?)</h[12]>", found)]
    assert len(set(headings)) == len(headings)
    assert "From 20261120T101530Z-aaaaaa to 20261121T101530Z-bbbbbb" in headings
    assert sum("pi-2000 · 12 pods · 2 nodes" in one for one in headings) == 2
    assert found.count('<span class="badge ok">') > 5


def test_other_settings_have_headings_of_their_own(compared):
    steal = [simulated("pi-2000", "carico", 1, 12, 2, warm_up_s=2.0, steal=0.25)]
    found = page([reading([*compared, *steal])])
    headings = re.findall(r"<h2>(.*?)</h2>", found)
    assert sum("steal=0.25" in one for one in headings) == 1


def test_the_papers_figures_stand_beside_ours(parsed):
    assert "pods take as long as with the right request" in parsed.text
    assert "mean PCT, carico" in parsed.text
    assert "9.55 s" in parsed.text
    assert "9.4 to 9.6" in parsed.text
    assert "1 depends on the seed" in parsed.text


def test_the_reference_is_the_users(compared):
    found = page([reading(compared)], "kube-scheduler:cpu=2000m")
    assert "Compared with kube-scheduler:cpu=2000m, the job" in found


def test_one_repetition_of_one_scheduler_is_a_page(compared):
    found = Parsed(page([reading(compared[:1])]))
    assert "Job completion time" in found.text
    assert "Against the best" not in found.text
    assert "seed 1" in found.text


def test_captions_compare_no_scheduler_with_itself(compared):
    one_pod_a_node = Parsed(page([reading([simulated("pi-2000", pods=2, nodes=2, warm_up_s=2.0)])])).text
    assert "at most 1. All panels" in one_pod_a_node
    assert "1 pods" not in one_pod_a_node
    assert "furthest apart" not in one_pod_a_node
    assert "furthest apart under" in Parsed(page([reading(compared)])).text


def test_a_session_that_measured_nothing_but_stated_something_is_a_page():
    found = Parsed(page([reading([], outcomes=paper())])).text
    assert "Beside the paper" in found


def test_nodes_that_were_not_observed_have_no_figures(compared):
    bare = [msgspec.structs.replace(one, nodes=[]) for one in incomplete(compared)]
    found = Parsed(page([reading(bare)]))
    assert "Running pods per node" not in found.text
    assert "Pod completion time" in found.text


def test_the_same_results_give_the_same_page(html, compared, served):
    assert page([reading([*served, *compared], outcomes=paper())]) == html


def test_a_page_that_would_be_too_large_says_what_it_lacks(compared, monkeypatch):
    whole = len(page([reading(compared)]))
    monkeypatch.setattr(page_module, "LARGEST", whole - 1)
    smaller = page([reading(compared)])
    assert len(smaller) < whole
    assert "To keep this page small, the numbers of time series are not there" in smaller
    monkeypatch.setattr(page_module, "LARGEST", 1000)
    with pytest.raises(ResultsError, match=r"the report has 0.. MB, at most 0.001 are sensible: make one of"):
        page([reading(compared)])


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    write_page(tmp_path / "r.html", "é")
    assert (tmp_path / "r.html").read_text() == "é"
    with pytest.raises(ResultsError, match=r"cannot write the report to .*none/r.html: No such file"):
        write_page(tmp_path / "none" / "r.html", "")


def test_without_jinja_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(testbed.requirements, "find_spec", lambda module: None if module == "jinja2" else 1)
    with pytest.raises(MissingExtra, match=r"a report needs jinja2: pip install 'carico-testbed\[report\]'"):
        page([])
