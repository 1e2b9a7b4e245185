"""Structured logs on standard error: readable on a terminal, JSON elsewhere."""

import logging
import sys

import structlog

from app.settings import Settings


def configure_logging(settings: Settings) -> None:
    """To be called once by a process that serves; commands that only answer do not log."""
    json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if json else structlog.processors.StackInfoRenderer(),
            structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Libraries log what we report ourselves, in one line a batch.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
