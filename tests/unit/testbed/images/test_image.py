"""Images are kept by a digest of their inputs."""

from testbed.images.image import Image, digest_of


def test_a_digest_depends_on_content_name_and_mode(tmp_path):
    tmp_path.joinpath("a").write_text("1")
    seen = [digest_of(tmp_path)]
    tmp_path.joinpath("a").chmod(0o755)
    seen.append(digest_of(tmp_path))
    tmp_path.joinpath("a").rename(tmp_path / "b")
    seen.append(digest_of(tmp_path))
    tmp_path.joinpath("b").write_text("2")
    seen.append(digest_of(tmp_path))
    assert len(set(seen)) == 4
    tmp_path.joinpath("__pycache__").mkdir()
    tmp_path.joinpath("__pycache__", "a.pyc").write_text("")
    assert digest_of(tmp_path) == seen[-1]


def test_parts_do_not_run_together():
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of(b"a", "b") == digest_of("a", b"b")


def test_an_image_that_the_daemon_has_is_not_built_again(docker, place):
    made = []

    def make(tag, on_progress):
        made.append(tag)
        place.joinpath("images", tag.replace("/", "_")).touch()

    image = Image("tried", ("1",), make)
    assert image.ensure(docker, print) == image.ensure(docker, print) == image.tag
    assert made == [image.tag]
    assert Image("tried", ("2",), make).tag != image.tag


def test_an_image_keeps_its_tag_when_its_parts_change(tmp_path):
    tmp_path.joinpath("a").write_text("1")
    image = Image("tried", (tmp_path,), lambda tag, on_progress: None)
    tag = image.tag
    tmp_path.joinpath("a").write_text("2")
    assert image.tag == tag
    assert Image("tried", (tmp_path,), image.make).tag != tag
