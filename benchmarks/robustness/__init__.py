"""A model checker of reservations: the real extender in a model of a cluster that fails, in virtual time.

`python -m benchmarks.robustness` runs clusters whose faults follow from a seed, and judges every decision by what the
model knows of each node: was there really room? The extender is CARICO's own: its core, the parsing of requests,
reports and watch events, the reflector with its waits, and the checkpoint. Everything around it is a model: the API
server (`api`), kube-scheduler (`kube_scheduler`), and nodes with kubelet and agent (`nodes`).
"""
