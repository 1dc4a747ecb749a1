"""Images by digest: what a user gives, and what nodes have pulled."""

import pytest

from carico.deployment.deploy import Deployment
from carico.deployment.images import check_image, digests
from carico.deployment.manifests import LABELS, Choices, manifests
from carico.deployment.status import read_status
from carico.errors import InvalidInput
from carico.testing import ManualClock
from tests.unit.carico.deployment.test_deploy import NOW, set_ready

ONE, OTHER = (f"sha256:{digit * 64}" for digit in "ab")
NAME = "registry.example/team/carico"


def pod(image, pulled, name="carico-agent-x"):
    return {
        "metadata": {"name": name, "namespace": "carico", "labels": LABELS},
        "spec": {
            "initContainers": [{"name": "first", "image": image}],
            "containers": [{"name": "main", "image": image}],
        },
        "status": {
            "initContainerStatuses": [{"name": "first", "imageID": pulled}],
            "containerStatuses": [{"name": "main", "imageID": pulled, "restartCount": 0}],
        },
    }


def test_a_digest_is_taken_as_it_is():
    image = f"{NAME}@{ONE}"
    check_image(image)
    made = str(manifests(Choices(image=image)))
    assert f"'image': '{image}'" in made


@pytest.mark.parametrize("digest", ["sha256:12", "sha256:" + "A" * 64, "sha512:" + "a" * 64, "", f"{ONE}@{ONE}"])
def test_what_is_no_digest_is_refused_with_the_form_that_is_one(digest):
    with pytest.raises(InvalidInput, match="sha256: and 64 hexadecimal digits, as `docker push` prints it, got"):
        check_image(f"{NAME}@{digest}")


@pytest.mark.parametrize(
    ("image", "pulled", "found"),
    [
        (f"{NAME}:1", f"{NAME}@{ONE}", f"{NAME}@{ONE}"),
        (NAME, f"docker-pullable://{NAME}@{ONE}", f"{NAME}@{ONE}"),
        ("localhost:5000/carico:1", f"localhost:5000/carico@{ONE}", f"localhost:5000/carico@{ONE}"),
        ("team/carico:1", f"docker.io/team/carico@{ONE}", f"docker.io/team/carico@{ONE}"),
        ("carico:1", f"docker.io/library/carico@{ONE}", f"docker.io/library/carico@{ONE}"),
    ],
)
def test_the_digest_of_a_tag_is_what_pods_have_pulled(image, pulled, found):
    assert digests([pod(image, pulled)]) == {image: {found}}


@pytest.mark.parametrize(
    ("image", "pulled"),
    [
        (f"{NAME}@{ONE}", f"{NAME}@{ONE}"),
        ("carico:1", ONE),
        ("carico:1", f"docker.io/library/import-2030-01-01@{ONE}"),
        (f"{NAME}:1", ""),
        (f"{NAME}:1", f"{NAME}@sha256:12"),
    ],
    ids=["named by digest", "loaded", "imported", "not pulled yet", "no digest"],
)
def test_there_is_none_to_name(image, pulled):
    assert digests([pod(image, pulled)]) == {}
    assert digests([{"metadata": {"name": "new"}, "spec": {"containers": [{"name": "main", "image": image}]}}]) == {}


class TestOnACluster:
    @pytest.fixture
    def lines(self, cluster, kube):
        def deploy(*pods):
            for number, each in enumerate(pods):
                cluster.put(f"/api/v1/namespaces/carico/pods/{number}", **each)
            clock, lines = ManualClock(), []
            clock.on_advance = lambda seconds: set_ready(cluster, 2)
            Deployment(kube, clock, lines.append).deploy(Choices(image=f"{NAME}:1"), NOW, wait_s=60)
            return [line for line in lines if "tag" in line]

        return deploy

    def test_deploying_says_how_to_name_exactly_this_image(self, lines):
        (line,) = lines(pod(f"{NAME}:1", f"{NAME}@{ONE}"), pod(f"{NAME}:1", f"{NAME}@{ONE}"))
        assert line == f"the tag of {NAME}:1 may move: --image {NAME}@{ONE} names exactly this image"

    def test_a_tag_that_has_moved_is_reported(self, lines, kube):
        (line,) = lines(pod(f"{NAME}:1", f"{NAME}@{OTHER}"), pod(f"{NAME}:1", f"{NAME}@{ONE}"))
        assert f"its tag has moved: choose one of {NAME}@{ONE}, {NAME}@{OTHER} and give it to --image" in line
        (problem,) = [each for each in read_status(kube, "carico", NOW).problems if "tag" in each]
        assert problem.startswith(f"pods run different images as {NAME}:1, because its tag has moved: deploy one of ")

    def test_images_without_a_registry_need_no_line(self, lines):
        assert lines(pod("carico:1", ONE)) == []
