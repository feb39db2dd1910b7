"""The files of the CMake package, for those who ask Python where they are."""
