"""What processes prove with who they are: certificates of nodes, and tokens of accounts.

A node gets a certificate of its own, with a key that never leaves it. In an agent's pod, `python -m carico.enrolment`
runs `carico enrol` whenever a certificate is due: `requester` makes a key and a CertificateSigningRequest. On the
schedulers' nodes, `carico signer` (`process`, `signer`) signs what `rules` allow, with the key of a CA that is for
nodes only. The API server says on which node the pod runs whose token was shown; nothing that a request says about
itself counts.

In the schedulers' pods, `carico tokens` (`tokens`) keeps tokens for the containers whose account is not the pod's.
"""
