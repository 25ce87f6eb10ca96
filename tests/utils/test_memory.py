import os

import pytest

from profs_tf.utils.memory import free_memory

GIB = 2**30


@pytest.fixture
def system(tmp_path):
    """Writes a fake /proc and /sys/fs/cgroup: 16 GiB free; folder of groups -> (limit, usage) in bytes."""

    def write(lines, groups, names=("memory.max", "memory.current")):
        proc, root = tmp_path / "proc", tmp_path / "cgroup"
        (proc / "self").mkdir(parents=True)
        (proc / "meminfo").write_text(
            f"MemTotal: {2**25} kB\nMemAvailable:  {2**24} kB\nHugePages_Total:  0\n"
        )
        if lines is not None:
            (proc / "self" / "cgroup").write_text("".join(f"{line}\n" for line in lines))
        for group, values in groups.items():
            (root / group).mkdir(parents=True, exist_ok=True)
            for name, value in zip(names, values):
                (root / group / name).write_text(f"{value}\n")
        return proc, root

    return write


def test_is_plausible():
    assert 2**24 < free_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("groups", "free"),
    [
        # The group's own limit, where others of the tree have none or a larger one.
        ({"": (), "a.slice": (12 * GIB, 2 * GIB), "a.slice/job": (4 * GIB, GIB)}, 3 * GIB),
        # That of a group above it.
        ({"": (), "a.slice": (6 * GIB, 5 * GIB), "a.slice/job": ("max", GIB)}, GIB),
        ({"": (), "a.slice": (6 * GIB, 5 * GIB), "a.slice/job": (4 * GIB, GIB)}, GIB),
        # Of siblings and groups below it, none.
        ({"a.slice/job": ("max", GIB), "a.slice/job/x": (GIB, 0), "a.slice/y": (GIB, 0)}, 16 * GIB),
        # A container whose own group is mounted as the root, with or without a namespace of its own.
        ({"": (2 * GIB, GIB)}, GIB),
        # More in use than a lowered limit.
        ({"a.slice/job": (GIB, 2 * GIB)}, 0),
        ({"a.slice/job": (64 * GIB, 0)}, 16 * GIB),
    ],
)
def test_the_smallest_limit_up_to_the_root_holds(groups, free, system):
    assert free_memory(*system(["0::/a.slice/job"], groups)) == free


def test_files_that_linux_would_give_up_are_free(system):
    proc, root = system(["0::/job"], {"job": (4 * GIB, 3 * GIB)})
    (root / "job/memory.stat").write_text(f"anon {GIB}\nfile {2 * GIB}\ninactive_file {GIB}\n")
    assert free_memory(proc, root) == 2 * GIB


def test_limits_of_version_1_are_those_of_the_memory_controller(system):
    lines = ["12:cpu,cpuacct:/other", "4:memory:/user/job", "1:name=systemd:/user", "0::/"]
    groups = {
        "memory": (2**63 - 4096, 9 * GIB),
        "memory/user": (8 * GIB, 2 * GIB),
        "memory/user/job": (5 * GIB, GIB),
        "memory/other": (GIB, 0),
        "cpu,cpuacct/other": (GIB, 0),
    }
    assert free_memory(*system(lines, groups, ("memory.limit_in_bytes", "memory.usage_in_bytes"))) == 4 * GIB


@pytest.mark.parametrize("lines", [None, [], ["0::/"], ["0::/../../above"], ["3:cpu:/"]])
def test_without_a_group_all_that_is_free_counts(lines, system):
    assert free_memory(*system(lines, {"job": (GIB, 0)})) == 16 * GIB


def test_colons_in_a_groups_name_are_part_of_it(system):
    assert free_memory(*system(["0::/job:1"], {"job:1": (2 * GIB, GIB)})) == GIB
