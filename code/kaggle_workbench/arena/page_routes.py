"""The few pages for a browser: what is hosted, and where the rules are accepted."""

from __future__ import annotations

from html import escape

from flask import Blueprint, Response, request

from kaggle_workbench.arena.answers import ApiError
from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Context

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap}"
)


def routes(context: Context) -> Blueprint:
    """The pages."""
    blueprint = Blueprint("pages", __name__)

    def named(slug: str) -> Competition:
        competition = context.hosting.find(slug)
        if competition is None or competition.gone:
            raise ApiError(404, "Not found")
        return competition

    @blueprint.get("/")
    def index() -> Response:
        rows = "".join(
            f'<li><a href="/competitions/{slug}">{escape(each.title)}</a> ({slug})</li>'
            for slug, each in sorted(context.hosting.all().items())
            if not each.gone
        )
        return _page("Practice arena", f"<p>Competitions hosted here:</p><ul>{rows}</ul>")

    @blueprint.get("/competitions/<slug>")
    def overview(slug: str) -> Response:
        competition = named(slug)
        return _page(
            competition.title,
            f"<pre>{escape(competition.description)}</pre><p>Metric: {escape(competition.metric.title)}. "
            f"Data: {escape(competition.licence)}</p>"
            f'<p><a href="/competitions/{slug}/rules">Rules</a></p>',
        )

    @blueprint.get("/competitions/<slug>/rules")
    def rules(slug: str) -> Response:
        return _page(f"Rules of {named(slug).title}", _rules(named(slug)))

    @blueprint.post("/competitions/<slug>/rules")
    def accept(slug: str) -> Response:
        competition = named(slug)
        who = context.tokens.owner(request.form.get("token", ""))
        if who is None:
            answer = _page(
                f"Rules of {competition.title}",
                "<p><strong>This arena does not know that token.</strong></p>" + _rules(competition),
            )
            answer.status_code = 401
            return answer
        context.store.accept_rules(who, slug)
        return _page(
            competition.title, f"<p>{escape(who)} has accepted the rules; downloads and submissions are open.</p>"
        )

    return blueprint


def _rules(competition: Competition) -> str:
    text = f"<pre>{escape(competition.rules) or 'This competition has no rules of its own.'}</pre>"
    if not competition.rules_required:
        return text + "<p>They need not be accepted here.</p>"
    # The token is asked for here, so no other page can accept in somebody's name.
    return text + (
        '<form method="post"><label>Your token <input type="password" name="token" autocomplete="off" required>'
        "</label> <button>I accept the rules</button></form>"
    )


def _page(title: str, body: str) -> Response:
    heading = escape(title)
    return Response(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style></head><body><h1>{heading}</h1>{body}</body></html>",
        mimetype="text/html",
    )
