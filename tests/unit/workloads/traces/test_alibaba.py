"""The readers of the Alibaba trace: how they read a row, and how they refuse an invalid one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidTrace
from workloads.traces.alibaba import TraceNode, TracePod, read_nodes, read_pods

COLUMNS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
ROW = "p1,6000,12288,1,460,V100M16|V100M32,LS,Running,100,250,110"
cells = st.sampled_from(["", "0", "1", "-1", "6000", "1e999", "nan", "Pending", "Running", "p1", "12902960", '"', "\0"])
hostile = (
    st.binary(max_size=200)
    | st.binary(max_size=100).map(lambda rest: COLUMNS.encode() + b"\n" + rest)
    | st.lists(st.lists(cells, min_size=11, max_size=11).map(",".join), max_size=4).map(
        lambda rows: "\n".join([COLUMNS, *rows]).encode()
    )
    | st.lists(st.lists(cells, min_size=5, max_size=5).map(",".join), max_size=4).map(
        lambda rows: "\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]).encode()
    )
)


def refusal(read, path):
    with pytest.raises(InvalidTrace) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestPods:
    def test_a_row_is_read_with_its_units(self, pod_file):
        assert read_pods(pod_file(ROW)) == [
            TracePod(
                name="p1",
                created_s=100,
                scheduled_s=110,
                lifetime_s=140,
                millicpu=6000,
                memory_mib=12288,
                gpus=1,
                qos="LS",
                phase="Running",
            )
        ]

    def test_they_come_in_the_order_of_their_creation(self, pod_file):
        pods = read_pods(pod_file("late,1,1,0,0,,LS,Failed,9,12,9", "early,1,1,0,0,,LS,Failed,3,5,4"))
        assert [pod.name for pod in pods] == ["early", "late"]

    @pytest.mark.parametrize(
        ("row", "scheduled_s", "lifetime_s"),
        [
            ("p1,1,1,0,0,,LS,Running,100,250,110", 110, 140),
            ("p1,1,1,0,0,,BE,Pending,100,250,", None, None),
            ("p1,1,1,0,0,,BE,Pending,100,250,110", 110, None),
            ("p1,1,1,0,0,,BE,Failed,100,250,", None, None),
            ("p1,1,1,0,0,,LS,Running,100,12902960,110", 110, None),
            ("p1,1,1,0,0,,LS,Succeeded,100,12902960,110", 110, 12902850),
            ("p1,1,1,0,0,,LS,Running,100,,110", 110, None),
        ],
        ids=["deleted", "pending", "bound", "never-bound", "end-of-trace", "done-at-the-end", "not-deleted"],
    )
    def test_only_pods_that_ran_and_ended_have_a_lifetime(self, pod_file, row, scheduled_s, lifetime_s):
        (pod,) = read_pods(pod_file(row))
        assert (pod.scheduled_s, pod.lifetime_s) == (scheduled_s, lifetime_s)

    def test_more_columns_in_another_order_and_a_byte_order_mark_are_fine(self, tmp_path):
        path = tmp_path / "pods.csv"
        header, row = COLUMNS.split(","), ROW.split(",")
        text = ",".join([*header[::-1], "more"]) + "\r\n" + ",".join([*row[::-1], "x"]) + "\r\n"
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert [pod.lifetime_s for pod in read_pods(path)] == [140]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (
                "p1,six,1,0,0,,LS,Running,1,2,1",
                "line 3: cpu_milli: a whole number from 0 to 1024000 is needed, got 'six'",
            ),
            (
                "p1,1.5,1,0,0,,LS,Running,1,2,1",
                "line 3: cpu_milli: a whole number from 0 to 1024000 is needed, got '1.5'",
            ),
            ("p1,,1,0,0,,LS,Running,1,2,1", "line 3: cpu_milli is missing: a whole number from 0 "),
            (
                "p1,-1,1,0,0,,LS,Running,1,2,1",
                "line 3: cpu_milli: a whole number from 0 to 1024000 is needed, got '-1'",
            ),
            (
                "p1,1,99999999999,0,0,,LS,Running,1,2,1",
                "memory_mib: a whole number from 0 to 1073741824 is needed, got '99999999999'",
            ),
            ("p1,1,1,0,0,,LS,Running,-1,2,1", "creation_time: a number from 0 to 10000000000 is needed, got '-1'"),
            ("p1,1,1,0,0,,LS,Running,nan,2,1", "creation_time: a number from 0 to 10000000000 is needed, got 'nan'"),
            ("p1,1,1,0,0,,LS,Running,1,inf,1", "deletion_time: a number from 0 to 10000000000 is needed, got 'inf'"),
            ("p1,1,1,0,0,,LS,Running,1,soon,1", "deletion_time: a number from 0 to 10000000000 is needed, got 'soon'"),
            ("p1,1,1,0,0,,LS,Running,5,4,5", "deletion_time is 4, which is before scheduled_time 5"),
            ("p1,1,1,0,0,,LS,Pending,5,4,", "deletion_time is 4, which is before creation_time 5"),
            ("p1,1,1,0,0,,LS,Running,5,9,4", "scheduled_time is 4, which is before creation_time 5"),
            (
                "p1,1,1,0,0,,LS,Lost,1,2,1",
                "pod_phase: one of Failed, Pending, Running, Succeeded is needed, got 'Lost'",
            ),
            (",1,1,0,0,,LS,Running,1,2,1", "name is missing: text of 1 to 253 characters is needed"),
            ("p0,1,1,0,0,,LS,Running,1,2,1", "name 'p0' already occurs in line 2: remove one of them"),
            ("p1,1,1", "line 3: 11 columns are needed, got 3"),
            ("", "line 3: 11 columns are needed, got 0"),
            ('p1,1,1,0,0,"V100"x,LS,Running,1,2,1', "line 3 is not CSV: ',' expected after '\"'"),
            ("p" * 200_000 + ",1,1,0,0,,LS,Running,1,2,1", "line 3 is not CSV: field larger than field limit"),
            (
                "p1," + "9" * 5000 + ",1,0,0,,LS,Running,1,2,1",
                f"cpu_milli: a whole number from 0 to 1024000 is needed, got '{'9' * 40}…'",
            ),
        ],
    )
    def test_the_message_says_where_and_what(self, pod_file, row, message):
        assert message in refusal(read_pods, pod_file("p0,1,1,0,0,,LS,Running,1,2,1", row))

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ("", "line 1: the columns name,cpu_milli"),
            ("name,cpu_milli\n", "check memory_mib, num_gpu, qos"),
            (COLUMNS.replace("memory_mib,", "") + "\n", "check memory_mib"),
            (COLUMNS + ",name\n", "each once, got 'name,cpu_milli,"),
            (COLUMNS + "\n", "has no rows: a header and at least one row are needed"),
        ],
    )
    def test_a_file_without_its_columns_or_rows(self, pod_file, header, message):
        assert message in refusal(read_pods, pod_file(header=header))

    def test_a_file_that_is_no_text(self, tmp_path):
        path = tmp_path / "pods.csv"
        path.write_bytes(f"{COLUMNS}\np".encode() + b"\xff,1")
        assert "line 2 is not UTF-8 text" in refusal(read_pods, path)

    @pytest.mark.parametrize("name", ["missing.csv", "folder.csv", "nul\0.csv"])
    def test_a_file_that_cannot_be_read(self, tmp_path, name):
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(InvalidTrace, match=r"^cannot read .*csv: "):
            read_pods(tmp_path / name)


class TestNodes:
    def test_a_row_is_read_with_its_units(self, node_file):
        nodes = read_nodes(node_file("n1,96000,393216,8,G2", "n2,32000,131072,0,"))
        assert nodes == [TraceNode("n1", 96000, 393216, 8), TraceNode("n2", 32000, 131072, 0)]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("n2,500,1024,0,", "line 3: cpu_milli: a whole number from 1000 "),
            ("n2,4000,0,0,", "line 3: memory_mib: a whole number from 1 "),
            ("n1,4000,1024,0,", "line 3: sn 'n1' already occurs in line 2"),
        ],
    )
    def test_the_message_says_where_and_what(self, node_file, row, message):
        assert message in refusal(read_nodes, node_file("n1,96000,393216,8,G2", row))


@given(hostile)
@pytest.mark.parametrize("read", [read_pods, read_nodes])
def test_any_bytes_are_read_or_refused(tmp_path_factory, read, content):
    path = tmp_path_factory.getbasetemp() / "hostile.csv"
    path.write_bytes(content)
    with contextlib.suppress(InvalidTrace):
        assert read(path)
