"""The service: few-shot classifiers behind HTTP (extra `tasknorm[serve]`)."""

from tasknorm.serve.limits import Limits, limits_of

try:
    from tasknorm.serve.server import is_local, serve
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "h11"):
        raise
    raise ModuleNotFoundError(
        f"the service needs {error.name}, which is not installed; install it: pip install 'tasknorm[serve]'",
        name=error.name,
    ) from None

__all__ = ["Limits", "is_local", "limits_of", "serve"]
