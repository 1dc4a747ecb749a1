"""The files of a container's /sys/fs/cgroup as kernels write them, by hierarchy."""

MIB = 2**20
NO_LIMIT = "9223372036854771712"
NO_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
V2 = {
    "cgroup.controllers": "cpuset cpu io memory pids\n",
    "cpu.stat": "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\nnr_periods 0\nnr_throttled 0\n"
    "throttled_usec 0\nnr_bursts 0\nburst_usec 0\n",
    "cpu.max": "200000 100000\n",
    "cpuset.cpus.effective": "0-3\n",
    "memory.current": f"{300 * MIB}\n",
    "memory.max": f"{400 * MIB}\n",
    "memory.stat": f"anon {200 * MIB}\nfile {100 * MIB}\nkernel 123\nfile_mapped 9\n",
    "cpu.pressure": NO_PRESSURE.format(1000),
    "memory.pressure": NO_PRESSURE.format(31),
    "io.pressure": NO_PRESSURE.format(41),
}
V1 = {
    "cpuacct/cpuacct.usage": "5000000000\n",
    "cpu/cpu.cfs_quota_us": "200000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "cpu/cpu.stat": "nr_periods 10\nnr_throttled 3\nthrottled_time 4000000\nnr_bursts 0\nburst_time 0\n",
    "cpuset/cpuset.effective_cpus": "0-3\n",
    "memory/memory.usage_in_bytes": f"{300 * MIB}\n",
    "memory/memory.limit_in_bytes": f"{400 * MIB}\n",
    "memory/memory.stat": f"cache 4096\nrss 8192\nhierarchical_memory_limit {NO_LIMIT}\n"
    f"total_cache {100 * MIB}\ntotal_rss {200 * MIB}\n",
}
HYBRID = V1 | {
    "unified/cgroup.controllers": "\n",
    "unified/cpu.pressure": NO_PRESSURE.format(1000),
    "unified/memory.pressure": NO_PRESSURE.format(31),
    "unified/io.pressure": NO_PRESSURE.format(41),
}
TREES = {"v2": V2, "v1": V1, "hybrid": HYBRID}
