"""The measurements of a repetition, one in each file: each turns pods and series into data items."""
