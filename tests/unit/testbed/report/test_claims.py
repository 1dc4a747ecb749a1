"""What holds of a paper's statements: the figures of a test, the count, and the table of all claims."""

import re

from testbed.report.claims import claims_table, counts, paper_table
from testbed.results.outcomes import Outcome, Row, Statement


def claim(text, column="", verdict="holds", case="", **fields):
    return Outcome(f"{text}-{column}-{case}", Statement("claim", "§5.2", text, column, case), verdict, **fields)


def test_figures_stand_beside_the_papers():
    rows = [
        Row("median PCT", [51.9], 52.0, "s"),
        Row("a quantity whose name is longer than its column is wide", [0.5], note="read off a figure"),
        Row("seed by seed", [1.0, 3.0], 4.0, "s"),
        Row("none", [3.0], 0.0, "pods"),
    ]
    table = paper_table(rows)
    assert max(map(len, table)) <= 80
    assert table[1].split() == ["median", "PCT", "52", "s", "51.9", "s", "1.00"]
    assert table[3].split()[-1] == "0.5"
    assert table[4].split() == ["read", "off", "a", "figure"]
    assert table[5].split() == ["seed", "by", "seed", "4", "s", "2", "s", "0.50", "1-3"]
    assert table[-1].split() == ["none", "0", "pods", "3", "pods"]


def test_columns_do_not_touch_however_long_the_figures_are():
    rows = [
        Row("what a pod of one thread demands", [0.72684, 0.7312], 1.0, "cores"),
        Row("the rate of pods that were started within one second", [12345.67, 23456.78], 13456.78, "pods/s"),
    ]
    table = paper_table(rows)
    assert max(map(len, table)) <= 80
    assert re.split(" {2,}", table[2].strip()) == ["demands", "1 cores", "0.729 cores", "0.73", "0.7268-0.7312"]
    assert re.split(" {2,}", table[-1].strip())[-4:] == ["13457 pods/s", "17901 pods/s", "1.33", "12346-23457"]


def test_a_claim_counts_once_for_each_variant_by_its_worst_case():
    outcomes = [
        claim("jobs are comparable", "rebased", case="100", verdict="not reproduced"),
        claim("jobs are comparable", "rebased", case="500"),
        claim("jobs are comparable", "literal", case="100", verdict="depends on the seed"),
        claim("pods are earlier", "rebased"),
        claim("pressure spikes"),
        Outcome("fitted", Statement("calibration"), "holds"),
        Outcome("ours", verdict="holds"),
        Outcome("ours, too", verdict="failed"),
    ]
    assert counts(outcomes) == [
        "3 claims",
        "  of no variant: 1 holds",
        "  literal: 1 depends on the seed",
        "  rebased: 1 holds, 1 NOT REPRODUCED",
        "1 calibration: 1 holds",
        "2 expectations: 1 holds, 1 failed",
    ]


def test_without_claims_tests_are_counted():
    outcomes = [Outcome("one", verdict="holds"), Outcome("two", verdict="holds"), Outcome("three", verdict="failed")]
    assert counts(outcomes) == ["3 tests: 2 passed, 1 failed"]


def test_the_table_has_a_line_for_every_case_of_a_claim():
    rows = [Row("JCT", [10.0], unit="s"), Row("JCT / best", [1.1, 1.3], 1.1), Row("aside", [7.0])]
    outcomes = [
        claim("jobs are comparable", "literal", case="100 pods", verdict="not reproduced", seeds=5, rows=rows),
        claim("jobs are comparable", "rebased", case="100 pods", seeds=5, held=5, rows=rows[:1]),
        claim("pressure spikes", rows=rows[2:]),
        Outcome("ours", verdict="holds"),
    ]
    assert claims_table({"simulated": outcomes})[2:] == [
        "| §5.2 | jobs are comparable (100 pods); JCT / best | literal 0/5; rebased 5/5 | 1.1 | 1.2; 10 s |",
        "| §5.2 | pressure spikes; aside | holds |  | 7 |",
    ]
