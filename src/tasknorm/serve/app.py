"""The paths of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp

from tasknorm.errors import DataError, short
from tasknorm.serve.bodies import Upload
from tasknorm.serve.docs_page import docs_page
from tasknorm.serve.door import GONE, Door
from tasknorm.serve.refusals import RefusedError, broken, of_status, told
from tasknorm.serve.schemas import ErrorAnswer, Health, Prediction, PredictorAnswer, PredictorList
from tasknorm.serve.service import Service

FILE = {"type": "string", "format": "binary"}
BASE64 = {"type": "array", "items": {"type": "string", "contentEncoding": "base64"}}
POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorAnswer}, "5XX": {"model": ErrorAnswer}}


def app_of(service: Service, *, token: str | None = None, hosts: Collection[str] | None = None) -> ASGIApp:
    """The service as an ASGI app.

    Args:
        service: what it does.
        token: what callers must send as a bearer token; None if anybody may ask.
        hosts: the names under which the service may be asked; None for any.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.end()

    app = FastAPI(
        title="tasknorm serve",
        version=version("tasknorm"),
        summary="Few-shot classifiers: send a few images of each class, then ask for the classes of others.",
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=ERRORS,
        lifespan=lifespan,
    )
    _refuse_in_json(app)
    _add_predictors(app, service)
    _add_examples_and_answers(app, service)
    _add_the_rest(app, service)
    return Door(
        app, limits=service.limits, admission=service.admission, metrics=service.metrics, token=token, hosts=hosts
    )


def _refuse_in_json(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return error.response()

    @app.exception_handler(DataError)
    async def wrong(request: Request, error: Exception) -> Response:
        return told(error, 422, request.url.path).response()

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        here = [route for route in app.routes if isinstance(route, Route) and route.path_regex.match(request.url.path)]
        methods = {method for route in here for method in route.methods or ()}
        return of_status(error, request.method, request.url.path, methods).response()

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=GONE)  # which nobody reads

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return broken(error).response()  # the door then writes it to the log

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return RefusedError(422, f"{place}: {first['msg']}", short(first.get("input")), "see /docs").response()


def _add_predictors(app: FastAPI, service: Service) -> None:
    @app.post("/predictors", status_code=201, openapi_extra=_body(by_class=True))
    async def make_a_predictor(request: Request, response: Response) -> PredictorAnswer:
        """Learn classes from a few images of each: a form whose fields are the class names, or JSON with base64."""
        made = await service.create(await _uploads(request, service, by_class=True))
        response.headers["Location"] = f"/predictors/{made.id}"
        return made

    @app.get("/predictors")
    async def list_predictors() -> PredictorList:
        """The ids of all predictors, the latest first."""
        return PredictorList(predictors=service.store.ids())

    @app.get("/predictors/{id}")
    async def describe_a_predictor(id: str) -> PredictorAnswer:
        """The classes of a predictor, and whether it is transductive."""
        return await service.describe(id)

    @app.delete("/predictors/{id}", status_code=204, response_model=None)
    async def delete_a_predictor(id: str) -> None:
        """Delete a predictor and its file."""
        await service.remove(id)


def _add_examples_and_answers(app: FastAPI, service: Service) -> None:
    @app.post("/predictors/{id}/examples", openapi_extra=_body(by_class=True))
    async def add_examples(id: str, request: Request) -> PredictorAnswer:
        """Add images of its classes, or of new ones; it is then as if it had had them from the start."""
        service.store.remembered(id)  # before the body is received
        return await service.add(id, await _uploads(request, service, by_class=True))

    @app.post("/predictors/{id}/predict", openapi_extra=_body(by_class=False))
    async def predict(id: str, request: Request, together: bool = False) -> Prediction:
        """The class of each image: a form with files, JSON with base64, or one image as it is.

        Each answer is that to the image alone, unless the predictor is transductive and `together` is asked for.
        """
        service.store.remembered(id)
        return await service.predict(id, await _uploads(request, service, by_class=False), together=together)


def _add_the_rest(app: FastAPI, service: Service) -> None:
    @app.get("/health")
    async def health() -> Health:
        """Whether the service is up; needs no token."""
        return Health(status="ok", predictors=len(service.store), waiting=service.admission.inside)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> str:
        """Counters in Prometheus' text format."""
        return service.metrics.text()

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi(), f"http://{request.headers.get('host', '')}"), headers=POLICY)


async def _uploads(request: Request, service: Service, *, by_class: bool) -> list[Upload]:
    content_type = request.headers.get("content-type", "")
    return await service.read(content_type, await request.body(), by_class=by_class)


def _body(*, by_class: bool) -> dict[str, Any]:
    """The OpenAPI description of a body with images."""
    files = {"type": "array", "items": FILE}
    form: dict[str, Any] = {"type": "object", "additionalProperties": files}
    if by_class:
        properties: dict[str, Any] = {"classes": {"type": "object", "additionalProperties": BASE64}}
    else:
        properties = {"images": BASE64}
    content = {
        "multipart/form-data": {"schema": form},
        "application/json": {
            "schema": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
    if not by_class:
        content["image/*"] = {"schema": FILE}
    return {"requestBody": {"required": True, "content": content}}
