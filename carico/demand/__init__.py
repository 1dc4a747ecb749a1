"""The variant `demand`: nodes learn what each workload demands, and the scheduler fills them to a level. Pure.

It takes the place of the thesis's subspace, capacity signal and filters. A node (`node`) counts its pods (`pods`) by
workload (`workload`), explains its telemetry by these counts (`regression`), and remembers how much memory pods hold at
their peak (`peaks`) and how many reads its disks serve (`disk`); its report (`report`) says how loaded it is and what
its workloads cost. The scheduler (`scheduler`) pools the costs of all nodes (`pool`), keeps at hand what nodes know of
workloads (`known`), adds the pods in flight to each node's load (`loads`), knows which pods wait (`waiting`) and where
they may go (`candidates`), fills nodes to a level (`filling`), and can explain each decision (`decision`). The
constants are in `settings`; `saved` checks state that is read back from a checkpoint.
"""
