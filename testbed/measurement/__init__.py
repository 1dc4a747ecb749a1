"""What is measured of a repetition: one file per measurement, each turning pods and series into data items."""
