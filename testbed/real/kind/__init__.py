"""kind: nodes that are containers of this machine; pods run the real programs, and CARICO is deployed."""
