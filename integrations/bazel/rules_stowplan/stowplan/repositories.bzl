"""For WORKSPACE files: the installed stowplan as a toolchain."""

load("//stowplan/private:installed.bzl", "stowplan_installed")

def stowplan_register_toolchains(name = "stowplan_toolchains", **kwargs):
    """Makes the toolchain repository and registers its toolchain for every platform.

    Toolchains with memories of their own are registered before this is called: the first that fits wins.

    Args:
      name: the repository's name.
      **kwargs: the attributes of stowplan_installed, such as python and mode.
    """
    stowplan_installed(name = name, **kwargs)
    native.register_toolchains("@%s//:any_platform" % name)
