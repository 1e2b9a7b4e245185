"""The composition root: the only place where ports meet adapters."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.infrastructure.ids import uuid7
from app.infrastructure.postgres.codec import Codec
from app.infrastructure.postgres.engine import make_engine
from app.infrastructure.postgres.hint import Hinter, no_hint
from app.infrastructure.postgres.log import PostgresLog
from app.infrastructure.postgres.unit_of_work import PostgresBegin
from app.settings import Settings
from app.use_cases.accept_handoff import AcceptHandoff
from app.use_cases.accept_hypothesis import AcceptHypothesis
from app.use_cases.accept_message import AcceptMessage
from app.use_cases.activate_template import ActivateTemplate
from app.use_cases.close_session import CloseSession
from app.use_cases.close_session_abnormally import CloseSessionAbnormally
from app.use_cases.close_turn import CloseTurn
from app.use_cases.dismiss_hypothesis import DismissHypothesis
from app.use_cases.erase_profile import EraseProfile
from app.use_cases.offer_handoff import OfferHandoff
from app.use_cases.open_session import OpenSession
from app.use_cases.ports import Begin, EventLog
from app.use_cases.propose_hypothesis import ProposeHypothesis
from app.use_cases.publish_template import PublishTemplate
from app.use_cases.record_profile import RecordProfile
from app.use_cases.retry_parked_row import RetryParkedRow
from app.use_cases.skip_parked_row import SkipParkedRow


@dataclass(frozen=True, slots=True)
class Retold:
    """Everything the product can do on one log; the fields are the use cases."""

    log: EventLog
    open_session: OpenSession
    accept_message: AcceptMessage
    close_turn: CloseTurn
    offer_handoff: OfferHandoff
    accept_handoff: AcceptHandoff
    close_session: CloseSession
    close_session_abnormally: CloseSessionAbnormally
    propose_hypothesis: ProposeHypothesis
    accept_hypothesis: AcceptHypothesis
    dismiss_hypothesis: DismissHypothesis
    record_profile: RecordProfile
    erase_profile: EraseProfile
    publish_template: PublishTemplate
    activate_template: ActivateTemplate
    retry_parked_row: RetryParkedRow
    skip_parked_row: SkipParkedRow


def use_cases(begin: Begin, log: EventLog) -> Retold:
    return Retold(
        log=log,
        open_session=OpenSession(begin),
        accept_message=AcceptMessage(begin),
        close_turn=CloseTurn(begin),
        offer_handoff=OfferHandoff(begin),
        accept_handoff=AcceptHandoff(begin),
        close_session=CloseSession(begin),
        close_session_abnormally=CloseSessionAbnormally(begin),
        propose_hypothesis=ProposeHypothesis(begin),
        accept_hypothesis=AcceptHypothesis(begin),
        dismiss_hypothesis=DismissHypothesis(begin),
        record_profile=RecordProfile(begin),
        erase_profile=EraseProfile(begin),
        publish_template=PublishTemplate(begin),
        activate_template=ActivateTemplate(begin),
        retry_parked_row=RetryParkedRow(begin),
        skip_parked_row=SkipParkedRow(begin),
    )


@contextmanager
def retold(database_url: str, settings: Settings) -> Iterator[Retold]:
    """Retold on the log at `database_url`; connections are opened as they are needed, and closed on the way out.

    Raises `RuleBroken` where an event type has no way up from an older schema; `LogUnavailable` comes with first use.
    """
    codec = Codec()
    codec.check()
    engine = make_engine(database_url, connect_timeout=settings.database_connect_timeout)
    hinter = Hinter(database_url, connect_timeout=settings.database_connect_timeout)
    try:
        begin = PostgresBegin(engine, codec, uuid7, hinter.hint if settings.hints else no_hint)
        yield use_cases(begin, PostgresLog(engine, codec))
    finally:
        hinter.close()
        engine.dispose()
