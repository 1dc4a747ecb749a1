"""Makes the plugin and pytest's own test kit available, whether or not the project is installed."""

pytest_plugins = ["testbed.plugin", "pytester"]
