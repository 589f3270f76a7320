"""``python -m wherry.session``: the life of one session. The methods stand in their order."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from typing import Optional

from wherry.core.errors import UserErrorException
from wherry.core.sessions import BUSY, joined
from wherry.runner import tree
from wherry.runner.process import Signals

from . import scripts, shell
from .contract import Contract, Script, read
from .home import Home, HomeError, place
from .jupyter import Jupyter
from .kernels import Fetch, Kernels
from .overlay import Overlay, OverlayError
from .saying import say
from .telling import Telling, to_own_run
from .terminals import Terminals
from .variables import of_user, within
from .wheels import fetcher

_BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_STEADY_S = 600.0  # having answered for so long, it is given all its chances again
_START_S = 300.0
_GRACE_S = 8.0
_LAST_TELLING_S = 5.0
_LOOK_EVERY_S = 5.0


def main() -> int:
    signals = Signals()
    try:
        contract = read(joined(os.environ))
    except ValueError as error:
        say(f"a session cannot begin: {error}")
        return 2
    fetch = fetcher(os.environ.get("WHERRY_RUN_ID", ""))
    return Session(contract, Home(place(contract)), to_own_run(), signals, fetch).run()


class Session:
    def __init__(
        self, contract: Contract, home: Home, telling: Telling, signals: Signals, fetch: Fetch
    ) -> None:
        self._contract = contract
        self._home = home
        self._telling = telling
        self._signals = signals
        self._fetch = fetch
        self._variables = of_user(os.environ, contract, home.path)
        self._kernels: Optional[Kernels] = None
        self._terminals = Terminals(os.environ.get(tree.MARK, ""))
        self._busy = False
        self._failed = ""  # what the first script to fail has to say

    def run(self) -> int:
        """The exit code: 0 when someone asked for the end."""
        self._telling.tell(phase="SettingUp", socket="", error="", terminals="")
        for notice in self._contract.notices:
            say(notice)
        try:
            self._home.make(self._contract)
            self._lay_out()
            self._run_scripts()
            return self._attend(self._jupyter()) if not self._signals.asked else 0
        except (HomeError, OverlayError, UserErrorException, OSError) as error:
            return self._give_up(self._told(error))
        finally:
            self._home.leave()

    def _told(self, error: Exception) -> str:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return f"there is no room left in the home {self._home.path}: make some there"
        return str(error)

    def _lay_out(self) -> None:
        """The virtual environment that packages go to, and the shell that knows of it."""
        overlay = Overlay(self._home.venv)
        below = overlay.lay(sys.executable, say)
        modules = {"pip": "pip", "pip3": "pip", "ipython": "IPython", "wherry": "wherry.cli.main"}
        for name, module in modules.items():
            overlay.add_command(name, module)
        folder = os.path.join(below.prefix, "bin")
        self._variables = within(self._variables, overlay.folder, folder)
        shell.write(self._home, [os.path.join(overlay.folder, "bin"), folder])
        self._kernels = Kernels(self._home, self._variables, self._fetch)
        self._kernels.write_default(overlay.python)

    def _run_scripts(self) -> None:
        """Whatever becomes of them, JupyterLab is started: it is where one looks for the reason."""
        contract = self._contract
        if contract.create and contract.creation_script is not None:
            self._run_script("creation", contract.creation_script)
        if not self._signals.asked:
            self._telling.tell(created="true")
        if contract.startup_script is not None and not self._signals.asked:
            self._run_script("startup", contract.startup_script)

    def _run_script(self, kind: str, script: Script) -> None:
        if not self._failed:
            self._telling.tell(phase="UserSettingUp")
        say(f"the {kind} script runs")
        try:
            scripts.run(kind, script, self._home, self._variables, self._is_asked)
        except scripts.ScriptError as error:
            say(str(error).splitlines()[0])
            self._failed = self._failed or str(error)
            self._telling.tell(phase="UserSetupFailed", error=self._failed)

    def _jupyter(self) -> Jupyter:
        return Jupyter(sys.executable, self._home, self._contract, self._variables)

    def _attend(self, jupyter: Jupyter) -> int:
        """Until someone asks for the end, or JupyterLab cannot be kept alive."""
        deaths = 0
        try:
            while True:
                answered_at = self._bring_up(jupyter)
                if answered_at is not None:
                    self._wait(jupyter)
                if self._signals.asked:
                    return 0
                if answered_at is not None and time.monotonic() - answered_at > _STEADY_S:
                    deaths = 0
                words = jupyter.last_words()
                jupyter.stop(0)
                if deaths == len(_BACKOFF_S):
                    return self._give_up(words)
                pause_s = _BACKOFF_S[deaths]
                say(f"{words.splitlines()[0]}; it is started again in {pause_s:g} s")
                self._telling.tell(phase="SettingUp", socket="", error=words)
                if answered_at is None and (deaths or jupyter.refuses):
                    self._leave_settings_out(jupyter, words)
                self._pause(pause_s)
                deaths += 1
        finally:
            jupyter.stop(_GRACE_S)

    def _leave_settings_out(self, jupyter: Jupyter, words: str) -> None:
        """Who has set something wrong has no other way in to put it right."""
        folder = jupyter.settings()
        if folder and not jupyter.plain:
            jupyter.plain = True
            told = f"JupyterLab runs without the settings in {folder}, with which it did not start"
            say(told)
            self._failed = self._failed or f"{told}: {words}"

    def _bring_up(self, jupyter: Jupyter) -> Optional[float]:
        jupyter.start()
        if not jupyter.wait_until_it_answers(_START_S, self._is_asked):
            return None
        say(f"JupyterLab of {self._contract.instance} answers")
        phase = "UserSetupFailed" if self._failed else "Ready"
        self._telling.tell(socket=jupyter.socket, phase=phase, error=self._failed)
        self._make_kernels()
        return time.monotonic()

    def _make_kernels(self) -> None:
        """Beside JupyterLab, and once: a slow build keeps nobody from their notebooks."""
        kernels, self._kernels = self._kernels, None
        if kernels is not None:
            work, given = kernels.make_all, (self._contract.kernels, self._is_asked)
            threading.Thread(target=work, args=given, name="kernels", daemon=True).start()

    def _wait(self, jupyter: Jupyter) -> None:
        while jupyter.running() and not self._signals.asked:
            self._look_at_terminals(jupyter)
            self._signals.wait(_LOOK_EVERY_S)

    def _look_at_terminals(self, jupyter: Jupyter) -> None:
        """What runs in them silently is known here alone."""
        busy = self._terminals.busy(jupyter.pid)
        if busy != self._busy:
            self._busy = busy
            self._telling.tell(terminals=BUSY if busy else "")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._signals.asked and time.monotonic() < until:
            self._signals.wait(until - time.monotonic())

    def _is_asked(self) -> bool:
        return bool(self._signals.asked)

    def _give_up(self, words: str) -> int:
        say(words)
        self._telling.tell(phase="SettingUp", error=words, socket="")
        self._telling.flush(_LAST_TELLING_S)
        return 1


if __name__ == "__main__":
    sys.exit(main())
