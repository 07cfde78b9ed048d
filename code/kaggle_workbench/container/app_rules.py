"""Rules for apps: what they are, where they listen, and what their commands do when AI Workbench runs them.

AI Workbench runs a command as `bash -c 'PROXY_PREFIX="..."; PROXY_PREFIX="..." COMMAND'`: the prefix is a
shell variable everywhere in COMMAND, but only the first simple command gets it in its environment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from kaggle_workbench.container.spec_model import APP_CLASSES, APP_TYPES, App, WebappOptions
from kaggle_workbench.container.spec_read import Document

_LISTS = ("environment.base.apps", "execution.apps")
_LOOPBACK = re.compile(
    r"--?(?:host|ip|bind|address|bind[_-]address|listen|server[._](?:address|name|host))(?:[ =]+)['\"]?"
    r"(127\.0\.0\.1|localhost)\b"
)
_PLAIN_DOLLAR = re.compile(r"(?<!\\)\$[A-Za-z_({]")
_ESCAPED_DOLLAR = re.compile(r"\\\$[A-Za-z_({]")


def check_apps(document: Document) -> None:
    """Apply the rules for apps to both lists of the spec."""
    environment, execution = document.spec.environment, document.spec.execution
    for at, apps in zip(_LISTS, (environment.base.apps, execution.apps), strict=True):
        for index, app in enumerate(apps):
            _app(document, f"{at}[{index}]", app)
            if app.name and app.name in [other.name for other in apps[:index]]:
                document.error(
                    "app-twice",
                    f"{at}[{index}].name",
                    f"Two apps of {at} are called {app.name!r}.",
                    "Give one of them another name.",
                )
    _same_port(document)


def _app(document: Document, at: str, app: App) -> None:
    name = repr(app.name) if app.name else "without a name"
    for field, value in (("name", app.name), ("type", app.type), ("class", app.class_)):
        if not value:
            document.error(
                "app-incomplete",
                f"{at}.{field}",
                f"The app {name} has no {field}.",
                "An app needs name, type and class.",
            )
    if app.class_ and app.class_ not in APP_CLASSES:
        document.error(
            "app-class",
            f"{at}.class",
            f"The app {name} has the unknown class {app.class_!r}.",
            "Write one of " + ", ".join(APP_CLASSES) + ".",
        )
    if app.type and app.type not in APP_TYPES:
        document.warn(
            "app-type",
            f"{at}.type",
            f"The app {name} has the unknown type {app.type!r}.",
            "Write custom for anything that is not one of " + ", ".join(APP_TYPES[:-1]) + ".",
        )
    if app.timeout_seconds < 0:
        document.error(
            "negative",
            f"{at}.timeout_seconds",
            f"timeout_seconds of {name} is {app.timeout_seconds}.",
            "Write seconds from 0 (0 means no limit).",
        )
    if app.class_ == "webapp":
        _webapp(document, at, app)
    elif app.webapp_options:
        document.warn(
            "app-options",
            f"{at}.webapp_options",
            f"The app {name} has webapp_options, but is of class {app.class_ or '(none)'}.",
            "Write class: webapp, or delete them.",
        )
    if app.process_options and app.class_ != "process":
        document.warn(
            "app-options",
            f"{at}.process_options",
            f"The app {name} has process_options, but is of class {app.class_ or '(none)'}.",
            "Write class: process, or delete them.",
        )
    _commands(document, at, app)


def _webapp(document: Document, at: str, app: App) -> None:
    options = app.webapp_options or WebappOptions()
    port_at = f"{at}.webapp_options.port"
    if not options.port:
        document.error(
            "app-port",
            port_at,
            f"The web app {app.name!r} has no webapp_options.port.",
            'Write the port it listens on, in quotes: port: "8888".',
        )
    elif not options.port.isdecimal() or not 1 <= int(options.port) <= 65535:
        document.error(
            "app-port",
            port_at,
            f"The port {options.port!r} of {app.name!r} is not a number from 1 to 65535.",
            'Write it in quotes: port: "8888".',
        )
    elif port_at not in document.quoted:
        document.error(
            "app-port",
            port_at,
            f"The port of {app.name!r} stands without quotes; AI Workbench writes and reads it as text.",
            f'Write port: "{options.port}".',
        )
    if options.url and options.url_command:
        document.error(
            "app-url",
            f"{at}.webapp_options.url_command",
            f"The app {app.name!r} has both url and url_command.",
            "Keep one: url for a fixed address, url_command for one with a token.",
        )
    _url(document, at, app, options)
    if not app.start_command:
        document.warn(
            "app-no-start",
            f"{at}.start_command" if document.has(f"{at}.start_command") else at,
            f"The web app {app.name!r} has no start_command, so opening it starts nothing.",
            'Write the command. A service that compose starts needs no app: set NVWB_TRIM_PREFIX: "true" on it.',
        )


def _url(document: Document, at: str, app: App, options: WebappOptions) -> None:
    try:
        parts = urlsplit(options.url)
        port = parts.port
    except ValueError:
        document.warn("app-url", f"{at}.webapp_options.url", f"The url of {app.name!r} is no address.", "Correct it.")
        return
    if not options.url or parts.query or parts.fragment:
        return
    if not parts.path.endswith("/"):
        document.warn(
            "url-slash",
            f"{at}.webapp_options.url",
            f"The url {options.url} of {app.name!r} has no / at its end.",
            f"Write {options.url}/" + (" if the app answers there." if parts.path else ".") + _from_image(at),
        )
    if port and options.port.isdecimal() and port != int(options.port):
        document.warn(
            "url-port",
            f"{at}.webapp_options.url",
            f"The url of {app.name!r} names port {port}, webapp_options.port is {options.port}.",
            "Write the same port in both.",
        )


def _commands(document: Document, at: str, app: App) -> None:
    told = (
        ("start_command", app.start_command),
        ("health_check_command", app.health_check_command),
        ("stop_command", app.stop_command),
        ("webapp_options.url_command", app.webapp_options.url_command if app.webapp_options else ""),
    )
    for field, command in told:
        path = f"{at}.{field}"
        if re.search(r"(^|[\s;&|(])sudo\s", command):
            document.warn(
                "sudo-in-app",
                path,
                f"{field} of {app.name!r} uses sudo, which a running container does not have.",
                "Do what needs root in preBuild.bash or postBuild.bash.",
            )
        if _PLAIN_DOLLAR.search(command) and _ESCAPED_DOLLAR.search(command):
            document.warn(
                "mixed-dollar",
                path,
                f"{field} of {app.name!r} writes both \\$ and $; both mean the same to AI Workbench.",
                "Write $ everywhere." + _from_image(at),
            )
        for pattern in _self_matching(command):
            document.warn(
                "pkill-self",
                path,
                f"pkill -f {pattern!r} in {field} of {app.name!r} also matches the command line of its own shell.",
                "Begin the pattern with ^ and the start of the process's own command line (ps -ef shows it)."
                + _from_image(at),
            )
    if app.class_ == "webapp":
        _listening(document, at, app)


def _listening(document: Document, at: str, app: App) -> None:
    path, command = f"{at}.start_command", app.start_command
    port = re.search(r"--(?:server\.)?port[ =]+['\"]?(\d+)\b", command)
    if port and app.port and int(port[1]) != app.port:
        document.warn(
            "port-differs",
            path,
            f"The start command of {app.name!r} listens on port {port[1]}, webapp_options.port is {app.port}.",
            "Write the same port in both." + _from_image(at),
        )
    bound = _LOOPBACK.search(command)
    if bound:
        document.warn(
            "bound-to-loopback",
            path,
            f"The start command of {app.name!r} binds it to {bound[1]}, where AI Workbench's proxy cannot reach it.",
            "Bind it to 0.0.0.0; the container publishes no port of its own." + _from_image(at),
        )
    if app.webapp_options and app.webapp_options.proxy.trim_prefix:
        return
    # Sourced scripts run in the same shell and see the variable, so nothing can be said of them.
    sourced = re.search(r"(^|[;&|]\s*)(\.|source)\s", command)
    if not _is_compound(command) or _hands_on_prefix(command) or sourced:
        return
    document.warn(
        "prefix-lost",
        path,
        f"PROXY_PREFIX reaches only the first command in the start command of {app.name!r}, not the app behind it, "
        "which must serve under that path (trim_prefix is false).",
        "Write export PROXY_PREFIX && in front, or PROXY_PREFIX=$PROXY_PREFIX before the app.",
    )


def _is_compound(command: str) -> bool:
    text = re.sub(r"\\\n", " ", command.strip())
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    return bool(re.search(r"&&|\|\||;|\||\n|\(|(?<!&)&(?!&)", re.sub(r"\d?>&\d|&>", "", bare)))


def _hands_on_prefix(command: str) -> bool:
    if re.search(r"\bexport\s+PROXY_PREFIX\b|\bPROXY_PREFIX=", command):
        return True
    # In single quotes the variable is left to an inner shell, which has not got it.
    return "PROXY_PREFIX" in re.sub(r"'[^']*'", "", command)


def _self_matching(command: str) -> list[str]:
    """Patterns of `pkill -f` that match `bash -c COMMAND` itself."""
    found = []
    for words in _simple_commands(command):
        if words[:1] != ["pkill"]:
            continue
        flags = [word for word in words[1:] if word.startswith("-")]
        patterns = [word for word in words[1:] if not word.startswith("-")]
        if not patterns or not any(flag == "--full" or re.fullmatch(r"-[a-z]*f[a-z]*", flag) for flag in flags):
            continue
        pattern = patterns[-1]
        # A variable is expanded before pkill sees it; the shell's own command line keeps its name.
        expanded = re.sub(r"\\?\$\{?\w+\}?", "/VALUE", pattern)
        try:
            if re.search(expanded, f"bash -c {command}"):
                found.append(pattern)
        except re.error:
            continue
    return found


def _simple_commands(command: str) -> list[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= set(";&|"):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return []
    return commands


def _same_port(document: Document) -> None:
    places = _effective(document)
    for index, (at, app) in enumerate(places):
        others = [other.name for _, other in places[:index] if other.port == app.port]
        if app.class_ == "webapp" and app.port and others:
            document.warn(
                "same-port",
                f"{at}.webapp_options.port",
                f"The web apps {app.name!r} and {others[0]!r} both use port {app.port}; only one of them can run.",
                "Give one of them another port.",
            )


def _effective(document: Document) -> list[tuple[str, App]]:
    """The apps with their places; one of the project replaces one of the image."""
    lists: Sequence[tuple[App, ...]] = (document.spec.environment.base.apps, document.spec.execution.apps)
    by_name = {
        app.name: (f"{at}[{index}]", app)
        for at, apps in zip(_LISTS, lists, strict=True)
        for index, app in enumerate(apps)
    }
    return list(by_name.values())


def _from_image(at: str) -> str:
    if at.startswith("execution"):
        return ""
    return " It stands among the image's apps; one of the same name under execution.apps replaces it."
