"""The command line: `entry.py` dispatches, every other file is one command or something that commands share."""
