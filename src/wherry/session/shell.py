"""The settings of the shells in terminals: the person's own, and then ours."""

from __future__ import annotations

import os
import shlex
from typing import Sequence

from . import small_file
from .home import Home

# A terminal begins where the one in its place was when the instance was stopped: the first one
# where the first one was, and so on. One that is opened in a folder of choice begins there.
_TEXT = """\
[ -f ~/.bashrc ] && . ~/.bashrc
export PATH={path}:$PATH
_wherry_begin() {{
    local number=1 session pid folder
    while :; do
        session='' pid='' folder=''
        [ -f "$1/$number" ] && read -r session pid folder < "$1/$number"
        [ "$session" = "$WHERRY_ATTEMPT_ID" ] && kill -0 "$pid" 2> /dev/null || break
        number=$((number + 1))
    done
    _wherry_place=$1/$number
    if [ "$PWD" = "$2" ] && [ "$session" != "$WHERRY_ATTEMPT_ID" ] && [ -d "$folder" ]; then
        cd "$folder"
    fi
}}
_wherry_note() {{ printf '%s %s %s\\n' "$WHERRY_ATTEMPT_ID" $$ "$PWD" > "$_wherry_place"; }}
_wherry_begin {places} {home}
PROMPT_COMMAND="_wherry_note${{PROMPT_COMMAND:+;$PROMPT_COMMAND}}"
"""


def write(home: Home, folders: Sequence[str]) -> None:
    """``folders`` go before all others that programs are looked for in."""
    places = os.path.join(home.own, "terminals")
    os.makedirs(places, mode=0o700, exist_ok=True)
    text = _TEXT.format(
        path=shlex.quote(os.pathsep.join(folders)),
        places=shlex.quote(places),
        home=shlex.quote(home.path),
    )
    small_file.write(home.rcfile, text)
