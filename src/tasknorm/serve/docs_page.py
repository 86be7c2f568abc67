"""The page at /docs: what can be asked, from the OpenAPI document; it loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1rem; font-family: ui-monospace, monospace; margin: 2rem 0 .3rem; }
pre { overflow-x: auto; padding: .7rem 1rem; border: 1px solid; border-radius: .4rem; }
b { display: inline-block; min-width: 4.5rem; }
"""

EXAMPLES = {
    "post /predictors": "curl -F heron=@heron1.jpg -F heron=@heron2.jpg -F stork=@stork1.jpg {url}/predictors",
    "get /predictors": "curl {url}/predictors",
    "get /predictors/{id}": "curl {url}/predictors/ID",
    "delete /predictors/{id}": "curl -X DELETE {url}/predictors/ID",
    "post /predictors/{id}/examples": "curl -F crane=@crane1.jpg {url}/predictors/ID/examples",
    "post /predictors/{id}/predict": "curl -F image=@new1.jpg -F image=@new2.jpg {url}/predictors/ID/predict",
    "get /health": "curl {url}/health",
    "get /metrics": "curl {url}/metrics",
}


def docs_page(document: Mapping[str, Any], url: str) -> str:
    """An HTML page of the paths in an OpenAPI document, each with a command to copy.

    Args:
        document: the OpenAPI document.
        url: where the service answers, for the commands.
    """
    parts = [
        _section(method, path, operation, url)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    info = document["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tasknorm serve</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>{escape(info['title'])}</h1><p>{escape(info['summary'])}</p>"
        "<p>With a token, add <code>-H 'Authorization: Bearer TOKEN'</code>. Errors are JSON: "
        "<code>{&quot;error&quot;: {&quot;rule&quot;, &quot;value&quot;, &quot;fix&quot;}}</code>. "
        'The whole description: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{''.join(parts)}</body></html>"
    )


def _section(method: str, path: str, operation: Mapping[str, Any], url: str) -> str:
    text = escape(operation.get("description", "")).replace("\n\n", "<br>")
    asked = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    query = "".join(
        f"<br><code>?{escape(parameter['name'])}=</code> {escape(parameter['schema'].get('type', ''))}, default "
        f"{escape(str(parameter['schema'].get('default')).lower())}"
        for parameter in asked
    )
    example = EXAMPLES.get(f"{method} {path}", "").replace("{url}", url)
    command = f"<pre>{escape(example)}</pre>" if example else ""
    return f"<h2><b>{method.upper()}</b> {escape(path)}</h2><p>{text}{query}</p>{command}"
