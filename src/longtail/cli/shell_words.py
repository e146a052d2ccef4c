"""Messages of the library in the words of the shell: --top-k for top_k, --overwrite for overwrite=True."""

from __future__ import annotations

import re

import click

# Options whose parameter has another name in the library.
_LIBRARY_NAMES = {"format_name": "format", "as_json": "json", "params": "param"}
# A name in a path or in quotation marks is the user's, not ours.
_BEFORE = r"(?<![\w./'\"=-])"
# After "data 'small': " stands a key of the user's file.
_NOT_IN_A_FILE = r"(?<!': )"
_VALUE = r"= ?('[^']*'|\"[^\"]*\"|[^\s;,)]*)"


def in_shell_words(message: str, command: click.Command) -> str:
    """Replace the parameters that a command has as options: "pass label_column=…" becomes "pass --label-column …".

    A name alone is replaced only where a rule follows ("top_k must be …"): elsewhere it may be an ordinary word, or
    stand in a list of an estimator's parameters.
    """
    for option in command.params:
        if not isinstance(option, click.Option) or option.name is None:
            continue
        name = _LIBRARY_NAMES.get(option.name, option.name)
        long = next((word for word in option.opts if word.startswith("--")), None)
        if long is None:
            continue
        if option.is_flag:
            if name.startswith("no_"):
                name, value = name.removeprefix("no_"), "False"
            else:
                value = "True"
            message = re.sub(rf"{_BEFORE}{name}={value}\b", long, message)
            continue
        message = re.sub(rf"{_BEFORE}{name}{_VALUE}", rf"{long} \1", message)
        message = re.sub(rf"{_BEFORE}{_NOT_IN_A_FILE}{name}(?= must )", long, message)
    return " ".join(message.split())
