"""The C rules of newer Bazel on Bazel 4, where they are built in; built in, they ask for this tag."""

_TAG = "__CC_RULES_MIGRATION_DO_NOT_USE_WILL_BREAK__"

def _tagged(kwargs):
    kwargs["tags"] = (kwargs.get("tags") or []) + [_TAG]
    return kwargs

def cc_binary(**kwargs):
    native.cc_binary(**_tagged(kwargs))

def cc_import(**kwargs):
    native.cc_import(**_tagged(kwargs))

def cc_library(**kwargs):
    native.cc_library(**_tagged(kwargs))

def cc_test(**kwargs):
    native.cc_test(**_tagged(kwargs))

def cc_toolchain(**kwargs):
    native.cc_toolchain(**_tagged(kwargs))

def cc_toolchain_suite(**kwargs):
    native.cc_toolchain_suite(**_tagged(kwargs))
