"""A string that can be set on Bazel's command line; written here so that the rule set needs no other for it."""

SettingInfo = provider(
    doc = "The value of a setting.",
    fields = {"value": "string"},
)

def _string_setting_impl(ctx):
    value = ctx.build_setting_value
    if ctx.attr.values and value not in ctx.attr.values:
        fail("%s: is %r; choose %s" % (ctx.label, value, " or ".join(ctx.attr.values)))
    return [SettingInfo(value = value)]

string_setting = rule(
    implementation = _string_setting_impl,
    doc = "A string with an optional list of values.",
    build_setting = config.string(flag = True),
    attrs = {
        "values": attr.string_list(doc = "What the value may be; anything when empty."),
    },
)
