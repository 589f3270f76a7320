"""``wherry completion``: what a shell needs to complete commands, options, ids and names."""

from __future__ import annotations

import click

from .command import Command, pass_session
from .options import OneOf
from .session import Session


@click.command(
    cls=Command,
    examples=[
        'eval "$(wherry completion bash)"                             # in ~/.bashrc',
        'eval "$(wherry completion zsh)"                              # in ~/.zshrc',
        "wherry completion fish > ~/.config/fish/completions/wherry.fish",
    ],
)
@click.argument("shell", type=OneOf(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
@click.pass_context
@pass_session
def completion(session: Session, ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands and options, and asks the server, if one runs, for runs, workspaces,
    experiments and targets.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    program = ctx.find_root().command
    session.write(kind(program, {}, "wherry", "_WHERRY_COMPLETE").source())
