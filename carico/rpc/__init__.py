"""What CARICO's processes say to each other over gRPC: messages, security, clients; needs the extra `agent`.

The modules ``*_pb2.py``, ``*_pb2.pyi`` and ``*_pb2_grpc.py`` are generated from the ``.proto`` files beside them by
``scripts/generate-stubs`` and committed, so that no installation needs a compiler.
"""

import os

# Before grpc is loaded. It would write a line of its own, whatever the format of the logs, for everyone who connects
# and has no certificate.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
