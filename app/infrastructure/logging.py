"""Structured logs on standard error: readable on a terminal, JSON elsewhere."""

import logging
import sys
from typing import Final

import structlog

from app.settings import Settings

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_logging(settings: Settings, *, at_least: str = "debug") -> None:
    """To be called once in a process. One that serves logs what the settings say; a command that only answers gives
    `at_least` "warning", for what it has to say is its answer."""
    level = max(LEVELS[settings.log_level], LEVELS[at_least])
    json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if json else structlog.processors.StackInfoRenderer(),
            structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up for every line: what standard error is may change, as it does in tests.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    # What these libraries log we report ourselves, in our own form and in one line.
    for library in ("neo4j", "apscheduler"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
