"""Shell completion, built on click: the script for each shell, and the words offered for each argument.

If a list of words cannot be built, nothing is printed: an error would garble the line that the user is typing.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

PROGRAM, VARIABLE = "ddptui", "_DDPTUI_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
RUN_NAME = re.compile(r"\d{8}-\d{6}-(?P<preset>.+?)(?:\.\d+)?")
UNSAFE = re.compile(r"[^\w.+,:=/@%^-]")  # characters that a shell might interpret

Items = list[CompletionItem[str]]


def complete(program: click.Command, instruction: str) -> int:
    """Answer the request that a shell makes in the variable `_DDPTUI_COMPLETE`. Returns the exit code."""
    try:
        return shell_complete(program, {}, PROGRAM, VARIABLE, instruction)
    except Exception:
        return 1


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes ddptui's commands in a shell.

    \b
    bash: add to ~/.bashrc   eval "$(ddptui completion bash)"
    zsh:  add to ~/.zshrc    eval "$(ddptui completion zsh)", below compinit
    fish: ddptui completion fish > ~/.config/fish/completions/ddptui.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source(), nl=False)


@add_completion_class
class Bash(BashComplete):
    """Completion in bash, which splits words at each `=`: `--set launch=sp` arrives as four words, and bash replaces
    only the last of them."""

    source_template = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *= ]] && compopt -o nospace ;;
        esac
    done < <(IFS=$'\\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
    _before = ""  # the part of the word that bash has split off before the value

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the cursor's word, and the word at the cursor, each as the user typed it."""
        args, last = super().get_completion_args()
        words: list[str] = []
        for word in [*args, last]:
            joins = bool(words) and word and (word.startswith("=") or words[-1].endswith("="))
            words = [*words[:-1], words[-1] + word] if joins else [*words, word]
        *args, whole = words
        before = whole.removesuffix("" if last == "=" else last)
        self._before = before.partition("=")[2] if before.startswith("--") else before  # --set=launch=sp
        return args, whole

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Returns the item's type and the part of its value that bash replaces."""
        return f"{item.type},{item.value.removeprefix(self._before)}"


@add_completion_class
class Zsh(ZshComplete):
    """Completion in zsh, without the space that zsh puts after a word: the value follows `world_size=` directly."""

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        """local -a fields values
        fields=(${(M)completions:#*=})
        values=(${completions:#*=})
        (( $#fields )) && compadd -U -S '' -V unsorted -a fields
        (( $#values )) && compadd -U -V unsorted -a values""",
    )


def _plain(values: Iterable[str], incomplete: str) -> Items:
    return [CompletionItem(value) for value in values if value.startswith(incomplete) and not UNSAFE.search(value)]


def presets_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offers preset names and the TOML files in this folder; only files once the user has typed a path."""
    from ddptui.store.presets import preset_paths

    if "/" in incomplete:
        return files(context, parameter, incomplete)
    here = sorted(path.name for path in Path().glob("*.toml"))
    return _plain([*preset_paths(), *(here if incomplete else [])], incomplete)


def run_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offers `last`, the presets that have been run, and the names of runs, newest first."""
    from ddptui.store.runs import all_runs, runs_folder

    if "/" in incomplete:
        return folders(context, parameter, incomplete)
    names = [run.name for run in all_runs(runs_folder(context.params.get("runs")))]
    presets = dict.fromkeys(found["preset"] for name in names if (found := RUN_NAME.fullmatch(name)))
    return _plain(["last", *presets, *names] if names else [], incomplete)


def assignments(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Fields of a trial; after `=`, the values of a field that has a list of them."""
    from ddptui.config.fields import completions

    return _plain(completions(incomplete), incomplete)


def themes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offers the console's themes."""
    from ddptui.config.settings import THEMES

    return _plain(THEMES, incomplete)


def strategies(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offers the strategies that average (all but `none`)."""
    from ddptui.config.catalog import AGGREGATING

    return _plain(AGGREGATING, incomplete)


def column_keys(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Offers the keys of the columns that compare trials."""
    from ddptui.config.fields import MEANINGS

    return _plain(MEANINGS, incomplete)


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Leaves the completion of files to the shell."""
    return [CompletionItem(incomplete, type="file")]


def folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Leaves the completion of folders to the shell."""
    return [CompletionItem(incomplete, type="dir")]
