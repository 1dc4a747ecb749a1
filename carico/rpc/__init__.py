"""What CARICO's processes say to each other over gRPC: messages, security, clients; needs the extra `agent`.

The modules ``*_pb2.py``, ``*_pb2.pyi`` and ``*_pb2_grpc.py`` are generated from the ``.proto`` files beside them by
``scripts/generate-stubs`` and committed, so that no installation needs a compiler.
"""
