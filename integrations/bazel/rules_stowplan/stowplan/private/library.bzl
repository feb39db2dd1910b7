"""stowplan_library: several models as one dependency, with arenas that they can share."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//stowplan:providers.bzl", "StowplanLibraryInfo", "StowplanModelInfo")

_HEADER = """/* {name}: {count} models that run in turn and can share their arenas.
 *
 *     static _Alignas({macro}_ARENA_ALIGN) uint8_t fast[{macro}_FAST_BYTES];
 */
#ifndef {macro}_H
#define {macro}_H

{includes}

#define {macro}_MODEL_COUNT {count}
#define {macro}_LARGER(a, b) ((a) > (b) ? (a) : (b))
#define {macro}_ARENA_ALIGN {align}
#define {macro}_FAST_BYTES {fast}
#define {macro}_SLOW_BYTES {slow}

#endif
"""

def _library_impl(ctx):
    models = [target[StowplanModelInfo] for target in ctx.attr.models]
    _check(ctx, models)
    name = ctx.attr.c_name or ctx.label.name.replace("-", "_").replace(".", "_")
    header = ctx.actions.declare_file(name + ".h")
    ctx.actions.write(header, _HEADER.format(
        name = name,
        macro = name.upper(),
        count = len(models),
        includes = "\n".join(["#include \"%s\"" % model.header.basename for model in models]),
        align = _largest(name, models, "ARENA_ALIGN"),
        fast = _largest(name, models, "FAST_BYTES"),
        slow = _largest(name, models, "SLOW_BYTES"),
    ))
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header]),
        includes = depset([header.dirname]),
    ))
    return [
        DefaultInfo(files = depset([header], transitive = [target[DefaultInfo].files for target in ctx.attr.models])),
        StowplanLibraryInfo(header = header, models = models),
        cc_common.merge_cc_infos(cc_infos = [own] + [target[CcInfo] for target in ctx.attr.models]),
        OutputGroupInfo(plan = depset([model.plan for model in models])),
    ]

def _check(ctx, models):
    """Fails where two models would have the same C names, or none was given."""
    if not models:
        fail("%s: models: is empty" % ctx.label)
    names = {}
    for target, model in zip(ctx.attr.models, models):
        if model.name in names:
            fail("%s: %s and %s would both be called %s in C: give one of them a c_name" % (ctx.label, names[model.name], target.label, model.name))
        names[model.name] = target.label

def _largest(name, models, what):
    """Returns a constant expression of C for the largest of a macro's values."""
    text = "%s_%s" % (models[0].name.upper(), what)
    for model in models[1:]:
        text = "%s_LARGER(%s_%s, %s)" % (name.upper(), model.name.upper(), what, text)
    return text

stowplan_library = rule(
    implementation = _library_impl,
    doc = """Makes several models one dependency, with a header that includes theirs.

`NAME_FAST_BYTES` and `NAME_SLOW_BYTES` are the largest of the models' arenas: models that run in turn can share them.""",
    attrs = {
        "c_name": attr.string(doc = "Prefix of the C names and name of the header; the target's name when empty."),
        "models": attr.label_list(
            mandatory = True,
            providers = [StowplanModelInfo, CcInfo],
            doc = "The `stowplan_model` targets.",
        ),
    },
    provides = [StowplanLibraryInfo, CcInfo],
)
