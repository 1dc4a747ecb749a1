"""The kubelet's folder, wherever its root is."""

from carico.telemetry.kubepods import find_kubepods


def test_the_kubelets_folder_is_found_at_the_least_depth(tmp_path):
    (tmp_path / "a" / "b" / "kubepods").mkdir(parents=True)
    assert find_kubepods(tmp_path) == tmp_path / "a" / "b" / "kubepods"
    (tmp_path / "z" / "kubepods.slice").mkdir(parents=True)
    assert find_kubepods(tmp_path) == tmp_path / "z" / "kubepods.slice"
    assert find_kubepods(tmp_path / "z" / "kubepods.slice") == tmp_path / "z" / "kubepods.slice"
