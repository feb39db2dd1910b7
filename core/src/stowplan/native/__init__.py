"""C code that runs on this machine: which compiler there is, and shared libraries built once and kept."""
