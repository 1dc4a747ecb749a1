"""The report of runs: one HTML page that needs nothing else, with figures as inline SVG and their data to download."""
