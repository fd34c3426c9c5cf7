"""Writes the pages of the reference that the code itself says: HTTP, command line, Python.

    python docs/_site/generate.py FOLDER

`make docs` runs this in the project's environment, before the site is built in its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args, get_origin

import typer

from rlcm_serve.api.app import create_app
from rlcm_serve.api.context import Context
from rlcm_serve.cli import build_app
from rlcm_serve.settings import Settings

METHODS = ("get", "post", "put", "patch", "delete")
PACKAGES = {
    "calibration": "Exit policies, traces, tests and certificates. Needs neither torch nor vLLM.",
    "rlcm_serve": "Requests: the engine, the solver and the service around them.",
    "rlcm_serve.aggregation": "Votes on rollouts from any source, without a model.",
    "training.rl.settings": "Settings of `rlcm train rl`: a class for each table of the file.",
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"http": http(), "cli": command_line()}
    pages |= {f"python-{name.replace('.', '-')}": python(name) for name in PACKAGES}
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, "utf-8")


def http() -> str:
    """Every path and every type of the OpenAPI document."""
    nothing = SimpleNamespace(settings=Settings(), keys=None, draining=None)
    document = create_app(cast("Context", nothing), lambda error: None).openapi()
    parts = [
        "# HTTP",
        "Every path, field and status of the service, from its OpenAPI document. A running service "
        "has the same document at `/openapi.json`. [Asking over HTTP](../guides/http.md) shows the "
        "requests at work.",
    ]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                parts += operation(method.upper(), path, operations[method])
    parts.append("## Types")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", schema.get("description", ""), fields(schema)]
    return "\n\n".join(part for part in parts if part) + "\n"


def operation(method: str, path: str, found: dict[str, Any]) -> list[str]:
    parts = [f"## `{method} {path}`", found.get("description") or found.get("summary", "")]
    parameters = [
        row(
            f"`{one['name']}` ({one['in']})",
            type_of(one["schema"]),
            default_of(one["schema"]),
            says(one),
        )
        for one in found.get("parameters", [])
    ]
    if parameters:
        parts.append(table(("parameter", "type", "default", "meaning"), parameters))
    bodies = found.get("requestBody", {}).get("content", {})
    for media, body in bodies.items():
        parts.append(f"**Body**, `{media}`: {type_of(body.get('schema', {}))}")
    answers = [
        row(f"`{status}`", contents(answer), answer.get("description", ""))
        for status, answer in found.get("responses", {}).items()
    ]
    return [*parts, table(("status", "body", "meaning"), answers)]


def contents(answer: dict[str, Any]) -> str:
    return ", ".join(
        f"`{media}` {type_of(body.get('schema', {}))}".strip()
        for media, body in answer.get("content", {}).items()
    )


def fields(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
    required = schema.get("required", [])
    rows = [
        row(
            f"`{name}`",
            type_of(one),
            "required" if name in required else default_of(one),
            says(one),
        )
        for name, one in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "default", "meaning"), rows) if rows else ""


def type_of(schema: dict[str, Any]) -> str:
    """A type in a few words, with links to the types of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[several]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    found = str(schema.get("type", "any"))
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[name]}" for name, sign in limits.items() if name in schema]
    return " ".join([found, ", ".join(bounds)]).strip()


def default_of(schema: dict[str, Any]) -> str:
    return f"`{schema['default']}`" if schema.get("default") is not None else ""


def says(schema: dict[str, Any]) -> str:
    return str(schema.get("description", ""))


def command_line() -> str:
    """Every command of `rlcm`, as `--help` has it."""
    group = typer.main.get_command(build_app())
    parts = ["# Command line", "Every command and option, as `rlcm COMMAND --help` shows them."]
    for name, command in commands("rlcm", group):
        parts += [f"## `{name}`", (command.help or "").strip()]
        rows = [
            row(written(one), kind(one), shown(one), one.help or "")
            for one in command.params
            if one.name != "help" and not one.hidden
        ]
        if rows:
            parts.append(table(("option", "value", "default", "meaning"), rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for part, inner in sorted(command.commands.items()):
            if not inner.hidden:
                yield from commands(f"{name} {part}", inner)
        if not getattr(command, "invoke_without_command", False):
            return
    yield name, command


def written(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{one}`" for one in [*parameter.opts, *parameter.secondary_opts])


def kind(parameter: Any) -> str:
    """What a value is: its choices, or a simple type."""
    if getattr(parameter, "is_flag", False):
        return ""
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    inner = get_args(annotation)[0] if get_args(annotation) else annotation
    choices = getattr(inner, "__members__", {}).values()
    if choices:
        return ", ".join(f"`{choice.value}`" for choice in choices)
    name = {"str": "text", "Path": "path"}.get(inner.__name__, inner.__name__)
    return f"{name}, several" if parameter.multiple or parameter.nargs != 1 else name


def shown(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default in (None, (), [], False) or callable(default):
        return ""
    return f"`{getattr(default, 'value', default)}`"


def python(package: str) -> str:
    """Every public name of a package; mkdocstrings reads the docstrings from the sources."""
    module = import_module(package)
    names = getattr(module, "__all__", None) or [
        name for name, one in vars(module).items() if getattr(one, "__module__", None) == package
    ]
    parts = [f"# `{package}`", PACKAGES[package]]
    parts += [f"::: {package}.{name}" for name in sorted(names, key=str.lower) if name[0] != "_"]
    return "\n\n".join(parts) + "\n"


def table(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([row(*head), "|" + "---|" * len(head), *rows]) if rows else ""


def row(*cells: str) -> str:
    return (
        "| " + " | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in cells) + " |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
