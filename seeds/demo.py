"""A small, fictional world to look at: two projects, three users, and agents that hand conversations to each other."""

from typing import Final

from app.domain.session import Cause
from seeds.story import (
    End,
    HandOver,
    HypothesisStory,
    ProfileStory,
    Say,
    SessionStory,
    Story,
    TemplateStory,
    Verdict,
)

SESSIONS: Final = (
    SessionStory(
        id="ferry-delays",
        project="ferry-timetable",
        user="user-1",
        agent="assistant",
        script=(
            Say(
                "Which boats were late last week, and why?",
                "Eleven crossings were late. I can show them by cause once somebody has asked the database.",
            ),
            HandOver("query_analyst", "The question needs figures from the timetable database."),
            Say(
                "By cause, please, the worst first.",
                "Fog 6, loading 4, a broken ramp 1. The fog delays were 14 minutes on average.",
            ),
            HandOver("assistant", "The figures are there; the conversation goes on."),
            Say("Thanks, that is all I need. 👍🏽", "Gladly. The figures stay in this session."),
            End(),
        ),
    ),
    SessionStory(
        id="horarios-de-inverno",
        project="ferry-timetable",
        user="user-2",
        agent="assistant",
        script=(
            Say(
                "Os horários de inverno já estão publicados?",
                "Ainda não: a travessia das 6h40 espera pela confirmação do cais.",
            ),
            Say(
                "E a página para telemóvel? As letras são pequenas demais para quem lê no cais, à chuva. 🌧️",
                "Isso é uma questão de desenho; passo a conversa a quem sabe.",
            ),
            HandOver("ux_designer", "A pessoa lê no telemóvel, de pé e à chuva; pede letras maiores."),
            Say(
                "Pode ser uma versão só com as próximas três partidas?",
                "Sim. Próximas três partidas, letras grandes, sem mapa. Fica como proposta.",
            ),
            End(),
        ),
    ),
    SessionStory(
        id="ramp-sensor",
        project="ferry-timetable",
        user="user-3",
        agent="query_analyst",
        script=(
            Say(
                "Join the ramp sensor with the crossings and count the faults per pier.",
                "The column `pier_id` is missing from `ramp_events`; I try the view with the old name.",
            ),
            Say("Try again with the view."),
            End(Cause.TIMED_OUT),
        ),
    ),
    SessionStory(
        id="reading-room",
        project="library-search",
        user="user-1",
        agent="assistant",
        script=(
            Say(
                "Readers search for «Τὰ εἰς ἑαυτόν» and find nothing. What happens there?",
                "The catalogue holds the title without accents. The search compares letter by letter.",
            ),
            Say(
                "The same for مقدمة and for 源氏物語, and for the café with a combining accent: cafe\u0301.",
                "All three are in the catalogue. The index should fold case and accents, and keep the text as it is.",
            ),
            HandOver("ux_designer", "Readers should see that a search was widened, and be able to narrow it again."),
            End(),
        ),
    ),
    SessionStory(
        id="shelf-labels",
        project="library-search",
        user="user-2",
        agent="ux_designer",
        script=(
            Say(
                "Чи можна показати полицю та поверх поруч із назвою?",
                "Так. Поверх першим, потім полиця: так люди йдуть будинком. 📚",
            ),
            HandOver("assistant", "The layout is settled; the rest is an ordinary request.", accepted=False),
        ),
    ),
    SessionStory(id="opened-by-mistake", project="library-search", user="user-3", agent="assistant", script=(End(),)),
)

HYPOTHESES: Final = (
    HypothesisStory(
        id="figures-before-words",
        session="ferry-delays",
        agent="query_analyst",
        description="Questions about delays are answered faster when the analyst is asked first.",
        cites=(2, 4, 7),
        verdict=Verdict("user-2"),
    ),
    HypothesisStory(
        id="lê-no-cais",
        session="horarios-de-inverno",
        agent="ux_designer",
        description="Quem lê no cais precisa de três partidas e letras grandes, não do horário inteiro.",
        cites=(4, 8),
    ),
    HypothesisStory(
        id="impatience",
        session="ramp-sensor",
        agent="query_analyst",
        description="The session timed out because the user lost patience.",
        cites=(2,),
        verdict=Verdict("user-1", dismissed_for="The log shows a lost connection, not a person who left."),
    ),
    HypothesisStory(
        id="widened-search",
        session="reading-room",
        agent="assistant",
        description="Readers accept a widened search as long as it says so. 検索語の揺れ",
        verdict=Verdict("user-3"),
    ),
)

PROFILES: Final = (
    ProfileStory(
        user="user-1",
        competence="data",
        session="ferry-delays",
        records=((2, "Asks for figures by cause."), (3, "Asks for figures by cause, and sorts them by weight.")),
        cites=(2, 6),
    ),
    ProfileStory(
        user="user-2",
        competence="design",
        session="horarios-de-inverno",
        records=((4, "Pensa em quem lê de pé, à chuva, com uma mão só."),),
        cites=(4, 8),
    ),
    ProfileStory(
        user="user-3",
        competence="operations",
        session="ramp-sensor",
        records=((3, "Knows which sensor belongs to which pier."),),
        cites=(2,),
        erased_for="asked for by the person",
    ),
)

TEMPLATES: Final = (
    TemplateStory(
        name="psychologist-kickoff",
        language="en",
        bodies=(
            "Read the events of session {{session}} and propose hypotheses, each with its evidence.",
            "Read the events of session {{session}}. Propose at most three hypotheses, each with evidence from it.",
        ),
        active=(1, 2),
    ),
    TemplateStory(
        name="anamnesis-kickoff",
        language="pt",
        bodies=(
            "Leia os eventos de {{user}} e registe o que sabe fazer.",
            "Leia os eventos de {{user}} e registe o que sabe fazer, com provas; nada sobre saúde, idade ou género.",
        ),
    ),
)

DEMO: Final[tuple[Story, ...]] = (*SESSIONS, *HYPOTHESES, *PROFILES, *TEMPLATES)
"""All of it, in an order in which what is cited comes before what cites it."""
