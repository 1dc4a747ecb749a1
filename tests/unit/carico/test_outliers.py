"""Who is far from the others for long is an outlier; whoever is so now and then, or for a moment, is not."""

from carico.outliers import LASTING_S, MOST, Outlier, Outliers, Said

FAR = {("node-3", "cores of a pod of pi"): Said(9.0, 1.0)}


def test_who_comes_back_to_the_others_begins_anew():
    outliers = Outliers()
    for now in (0.0, LASTING_S - 5):
        assert outliers.look(FAR, now) == []
    outliers.look({}, LASTING_S)
    for now in (LASTING_S + 5, 2 * LASTING_S + 4):
        assert outliers.look(FAR, now) == outliers.present == []
    assert (
        outliers.look(FAR, 2 * LASTING_S + 5)
        == outliers.present
        == [Outlier("node-3", "cores of a pod of pi", 9.0, 1.0, LASTING_S)]
    )


def test_it_is_told_once_and_shown_with_what_is_said_now():
    outliers = Outliers()
    outliers.look(FAR, 0.0)
    assert len(outliers.look(FAR, LASTING_S)) == 1
    assert outliers.look({key: Said(7.0, 1.5) for key in FAR}, LASTING_S + 5) == []
    (shown,) = outliers.present
    assert str(shown) == "node-3: cores of a pod of pi: 7, most nodes say 1.5, for 35 s"


def test_nobody_hides_by_being_far_in_very_many_things():
    outliers = Outliers()
    outliers.look(FAR, 0.0)
    many = {("node-0", f"cores of a pod of job-{number}"): Said(9.0, 1.0) for number in range(2 * MOST)}
    new = outliers.look(many | FAR, LASTING_S)
    assert [each.node for each in new] == ["node-3"]
    assert len(outliers.look(many | FAR, 2 * LASTING_S)) == MOST - 1
    assert len(outliers.present) == MOST
