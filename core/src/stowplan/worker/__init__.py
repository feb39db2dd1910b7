"""The command as build tools run it: arguments in files, silent when done, and many requests in one process."""
