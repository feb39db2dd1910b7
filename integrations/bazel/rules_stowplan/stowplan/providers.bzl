"""What the rules tell each other, for rules of your own that consume models."""

StowplanModelInfo = provider(
    doc = "A model that was fitted into memory, and the C made from its plan.",
    fields = {
        "flash": "string: the flash that the plan had to fit, or empty.",
        "header": "File: the generated C header.",
        "memory": "list of strings: the memories that the plan had to fit, fast and then slow.",
        "name": "string: the prefix of all C names.",
        "plan": "File: the plan (.stow).",
        "sources": "list of Files: the generated C sources.",
    },
)

StowplanLibraryInfo = provider(
    doc = "Several models that a program runs in turn.",
    fields = {
        "header": "File: includes the header of each model, and has the sizes of arenas that they can share.",
        "models": "list of StowplanModelInfo, in the order in which they were given.",
    },
)

StowplanToolchainInfo = provider(
    doc = "How to run stowplan, and what a platform has for models that do not say it.",
    fields = {
        "codegen_options": "list of strings: options for every `stowplan codegen`.",
        "compile_options": "list of strings: options for every `stowplan compile`.",
        "flash": "string: flash for models that name none, or empty.",
        "memory": "list of strings: memories for models that name none.",
        "runfiles": "runfiles: what the tool needs beside itself when a test runs it.",
        "supports_workers": "bool: whether the tool can stay alive and take many requests.",
        "tool": "FilesToRunProvider: the command.",
    },
)
