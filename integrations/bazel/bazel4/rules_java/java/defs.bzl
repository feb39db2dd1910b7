"""The Java rules that Bazel 4 loads for toolchains of its own; built in, they ask for this tag."""

_TAG = "__JAVA_RULES_MIGRATION_DO_NOT_USE_WILL_BREAK__"

def _tagged(kwargs):
    kwargs["tags"] = (kwargs.get("tags") or []) + [_TAG]
    return kwargs

def java_binary(**kwargs):
    native.java_binary(**_tagged(kwargs))

def java_import(**kwargs):
    native.java_import(**_tagged(kwargs))

def java_runtime(**kwargs):
    native.java_runtime(**_tagged(kwargs))

def java_toolchain(**kwargs):
    native.java_toolchain(**_tagged(kwargs))
