"""Decisions about a template: numbered versions, one of them active, nothing twice."""

import hashlib

import pytest

from app.domain import template
from app.domain.errors import NotFound, RuleBroken
from app.domain.template import Template, TemplateActivated, TemplateVersionPublished


def published(number: int, body: str) -> TemplateVersionPublished:
    digest = hashlib.sha256(body.encode()).hexdigest()
    return TemplateVersionPublished(number=number, language="en", hash=digest, body=body)


def test_versions_are_numbered() -> None:
    assert template.publish(Template(), language="en", body="Be kind") == (published(1, "Be kind"),)
    assert template.publish(template.fold([published(1, "Be kind")]), language="en", body="Be brief") == (
        published(2, "Be brief"),
    )


def test_g49_publishing_the_same_body_again_changes_nothing() -> None:
    assert template.publish(template.fold([published(1, "Be kind")]), language="en", body="Be kind") == ()


def test_g49_an_older_body_is_a_new_version() -> None:
    history = template.fold([published(1, "Be kind"), published(2, "Be brief")])

    assert template.publish(history, language="en", body="Be kind") == (published(3, "Be kind"),)


@pytest.mark.parametrize("body", ["", "a\x00", "\ud800"])
def test_a_body_that_cannot_be_kept_is_refused(body: str) -> None:
    with pytest.raises(RuleBroken, match="template body"):
        template.publish(Template(), language="en", body=body)


def test_one_version_is_active() -> None:
    two = [published(1, "Be kind"), published(2, "Be brief")]
    assert template.activate(template.fold(two), number=2) == (TemplateActivated(number=2),)

    active = template.fold([*two, TemplateActivated(number=2), TemplateActivated(number=1)])
    assert active.active == 1
    assert template.activate(active, number=1) == ()


def test_a_version_that_was_never_published_cannot_be_active() -> None:
    with pytest.raises(NotFound, match=r"no version 3; it has \[1\]"):
        template.activate(template.fold([published(1, "Be kind")]), number=3)
