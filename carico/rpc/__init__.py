"""gRPC between CARICO's processes: messages, security, clients and servers; needs the extra `agent`.

The modules ``*_pb2.py`` and ``*_pb2.pyi`` are generated from the ``.proto`` files beside them by
``scripts/generate-stubs`` and committed, so that no installation needs a compiler.
"""

import os

# To be set before grpc is loaded: otherwise it writes a line for every client without a certificate, and even with the
# level ERROR one for every call with metadata that it cannot read, in another format than the process's logs.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
