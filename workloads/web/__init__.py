"""A web server that spends CPU time on every request, and a poller that measures how long its answers take."""
