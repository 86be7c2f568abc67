from tasknorm.cli.app import app

__all__ = ["app"]
