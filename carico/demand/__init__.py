"""The variant `demand`: nodes learn what each workload demands, and the scheduler fills them to a level. Pure.

It takes the place of the thesis's subspace, capacity signal and filters. A node (`node`) counts its pods (`pods`) by
workload (`workload`), explains its telemetry by them (`regression`), and remembers what they hold at their peak
(`peaks`); its report (`report`) says what it carries and what its workloads cost. The scheduler (`scheduler`) pools
the costs of all nodes (`pool`), adds the pods on their way to a node (`loads`), knows what waits (`waiting`) and
where it may go (`candidates`), fills nodes to a level (`filling`), and can say why (`decision`). The constants are in
`settings`; `saved` checks what is read back from a checkpoint.
"""
