"""Commands and groups: the options that all of them take, help that teaches, lazy loading."""

from __future__ import annotations

import importlib
import shlex
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from .ending import USAGE, Usage
from .options import OneOf
from .session import FORMATS, Session


def pass_session(function: Callable[..., None]) -> Callable[..., None]:
    """Hand a command its session as the first argument."""
    return _pass_session(function)


_pass_session = click.make_pass_decorator(Session, ensure=True)


class Command(click.Command):
    """A command with examples, and the options that every command takes."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        options.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **options)
        self.examples = examples
        self.common = common_options()
        self.params = [*self.params, *self.common]

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _unknown_option(error, self, ctx) from None
        except click.UsageError as error:
            if error.message.startswith(_TOO_MUCH):
                raise _too_many_arguments(error, ctx) from None
            error.ctx = error.ctx or ctx
            raise

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole sentence: a long one goes on in the next line."""
        return super().get_short_help_str(10**6)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [each for each in self.get_params(ctx) if each not in self.common]
        _write_options(ctx, formatter, "Options", own)
        _write_options(ctx, formatter, "Options of every command", self.common)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Group(Command, click.Group):
    """A noun, whose verbs come in the order of a run's life. Mistyped verbs are guessed."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            ctx.ensure_object(Session).write_error(self.get_help(ctx))
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: List[str]
    ) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise _unknown_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        Command.format_options(self, ctx, formatter)


class LazyGroup(Group):
    """A group whose commands live in modules that are loaded when one is called."""

    def __init__(self, *args: Any, places: Dict[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command


def common_options() -> List[click.Parameter]:
    """The options of every command; they may stand before or after its name."""
    return [
        _option(
            ["-o", "--output"],
            _set_flag,
            type=OneOf(FORMATS),
            metavar="FORMAT",
            help="Print data as table (for people), json, yaml or tsv.",
        ),
        _option(
            ["--query"], _set_query, metavar="JMESPATH", help="Print only this part of the data."
        ),
        _option(
            ["-w", "--workspace"],
            _set_flag,
            metavar="NAME",
            shell_complete=completing("workspaces"),
            help="Work in this workspace.",
        ),
        _option(
            ["-q", "--quiet"], _set_switch, is_flag=True, help="Only data, warnings and errors."
        ),
        _option(
            ["--debug"], _set_switch, is_flag=True, help="On an error, show where it came from."
        ),
    ]


def argument_for_run(name: str = "run_id", **options: Any) -> Callable[[Any], Any]:
    """An argument that names a run and completes to one."""
    options.setdefault("metavar", name.upper() if options.get("required", True) else "[RUN_ID]")
    return click.argument(name, shell_complete=completing("runs"), **options)


def whole_number_option(*names: str, **options: Any) -> Callable[[Any], Any]:
    """An option that takes 0, 1, 2, ..."""
    return click.option(
        *names, metavar="N", type=click.UNPROCESSED, callback=_whole_number, **options
    )


def completing(what: str) -> Any:
    """For ``shell_complete=``: things that only the server knows, loaded when asked for."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        from . import candidates

        return candidates.find(what, ctx.ensure_object(Session), incomplete, ctx.params)

    return complete


def guess(name: str, known: Sequence[str]) -> str:
    """``; did you mean ...?`` where something known is close, else nothing."""
    from ..core.nearest import did_you_mean, nearest

    bare = {each.lstrip("-"): each for each in known}
    return did_you_mean([bare[each] for each in nearest(name.lstrip("-"), bare, most=2)])


def _write_options(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[Any]
) -> None:
    options = [param for param in params if isinstance(param, click.Option)]
    records = [option.get_help_record(ctx) for option in options]
    shown = [record for record in records if record is not None]
    if shown:
        with formatter.section(title):
            formatter.write_dl(shown)


def _option(names: Sequence[str], callback: Any, **options: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=callback, **options)


def _set_flag(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> None:
    if value is not None:
        ctx.ensure_object(Session).flags[str(param.name)] = value


def _set_query(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> None:
    if value is not None:
        ctx.ensure_object(Session).query = value


def _set_switch(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        setattr(ctx.ensure_object(Session), str(param.name), True)


def _whole_number(ctx: click.Context, param: click.Parameter, value: Any) -> Optional[int]:
    if value is None or str(value).isdecimal():
        return None if value is None else int(value)
    raise click.BadParameter(f"{value!r} is not a whole number", ctx, param)


def _unknown_command(group: click.Group, ctx: click.Context, args: List[str]) -> Usage:
    name, *rest = args
    known = group.list_commands(ctx)
    meant = _other_word(name, rest) or _verb_of_a_noun(group, ctx, name)
    told, hint = guess(name, known), f"the commands are {', '.join(known)}"
    if meant and ctx.parent is None:
        told = f"; did you mean 'wherry {meant}'?"
        hint = " ".join(["wherry", meant, *map(shlex.quote, rest)])
    error = Usage(f"{ctx.command_path!r} has no command {name!r}{told}", hint=hint)
    error.ctx = ctx
    return error


def _other_word(name: str, rest: List[str]) -> Optional[str]:
    """What has a name is no server."""
    if name in ("start", "stop"):
        return "job cancel" if name == "stop" and rest else None if rest else f"server {name}"
    return _OTHER_WORDS.get(name)


_OTHER_WORDS = {
    "submit": "run",
    "ls": "ps",
    "kill": "job cancel",
    "rm": "job delete",
    "help": "--help",
    "version": "--version",
}


def _verb_of_a_noun(group: click.Group, ctx: click.Context, verb: str) -> str:
    """``job cancel`` for ``cancel``; nothing if no noun has that verb."""
    for noun in group.list_commands(ctx):
        below = group.get_command(ctx, noun)
        if isinstance(below, click.Group) and verb in below.list_commands(ctx):
            return f"{noun} {verb}"
    return ""


_TOO_MUCH = "Got unexpected extra argument"


def _too_many_arguments(error: click.UsageError, ctx: click.Context) -> Usage:
    words = error.message.partition("(")[2].rstrip(").")
    found = Usage(
        f"{ctx.command_path!r} cannot use {words!r}",
        hint=f"{ctx.command_path} --help says what it takes",
    )
    found.ctx = ctx
    return found


def _unknown_option(error: click.NoSuchOption, command: click.Command, ctx: click.Context) -> Usage:
    known = [name for param in command.get_params(ctx) for name in param.opts if "--" in name]
    name = error.option_name
    found = Usage(
        f"{ctx.command_path!r} has no option {name!r}{guess(name, known)}",
        hint=f"{ctx.command_path} --help lists its options",
    )
    found.ctx = ctx
    return found
