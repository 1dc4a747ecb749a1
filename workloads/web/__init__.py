"""A web server that costs CPU time for every request, and a poller that measures how long its answers take."""
