"""Sentences with figures in them: ages, prices, counts, distances, dates and times."""

from aiayn.sample.declension import ACCUSATIVE, NOMINATIVE, THE, THIS
from aiayn.sample.lexicon import ALL_NOUNS, Noun, tagged
from aiayn.sample.numbers import (
    MONTHS,
    ONES_DE,
    ONES_EN,
    clock_times,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
)
from aiayn.sample.phrases import (
    NAMES,
    TOWNS,
    Draw,
    Phrase,
    noun_phrase,
    person_subject,
    pick,
    where,
)
from aiayn.sample.times import AT_CLOCK, DAYS, ON_DATES, ON_DAYS, YEARS, Pair

NOUNS = {noun.en[0]: noun for noun in ALL_NOUNS}
COUNTED = tuple(
    (NOUNS[place], english, german, lowest, highest)
    for place, english, german, lowest, highest in (
        ("library", "books", "Bücher", 500, 99_999),
        ("hotel", "rooms", "Zimmer", 13, 399),
        ("school", "pupils", "Schüler", 60, 999),
        ("village", "inhabitants", "Einwohner", 102, 2999),
        ("city", "inhabitants", "Einwohner", 10_000, 999_999),
        ("museum", "pictures", "Bilder", 102, 1999),
        ("university", "students", "Studenten", 1000, 59_999),
        ("factory", "machines", "Maschinen", 13, 199),
        ("theatre", "seats", "Plätze", 60, 1499),
        ("hospital", "beds", "Betten", 60, 999),
    )
)
PRICED = tagged("thing", "clothes", "furniture", "reading", "private")
EVENTS = tagged("event")
APPOINTMENTS = tuple(NOUNS[name] for name in ("meeting", "lecture", "exam", "conversation"))
FOUNDED = tuple(NOUNS[name] for name in ("school", "library", "museum", "factory", "theatre"))
STOREYS = tuple(NOUNS[name] for name in ("office", "library", "restaurant", "bedroom"))
SIGHTS = tagged("town")
REMOTE = tuple(NOUNS[name] for name in ("village", "castle", "airport", "lake", "farm"))
REGIONS = tuple(NOUNS[name] for name in ("city", "village"))
CLOCK = tuple(clock_times())

AGED = (("he", "er"), ("she", "sie"), *((name_en, name_de[0]) for name_en, name_de in NAMES))
TODAY = (
    ("Today is", "Heute ist"),
    ("Tomorrow is", "Morgen ist"),
    ("Yesterday was", "Gestern war"),
)


def _number(draw: Draw, lowest: int, highest: int) -> int:
    """Draw a number of things; nobody is sure how to say 101 of them in German."""
    number = lowest + int(draw() * (highest - lowest))
    return number + 1 if number % 100 == 1 else number


def _the(draw: Draw, noun: Noun) -> Phrase:
    """Say a noun with the or this as a subject."""
    determiner = THIS if draw() < 0.2 else THE
    return noun_phrase(draw, noun, NOMINATIVE, determiner.slot(noun.gender, NOMINATIVE, 0))


def age(draw: Draw) -> Pair:
    """Anna is twenty-one years old, and so is a church."""
    if draw() < 0.5:
        subject_en, subject_de = pick(draw, AGED)
        number = 2 + int(draw() * 97)
    else:
        place = _the(draw, pick(draw, SIGHTS))
        subject_en, subject_de = place.en, place.de
        number = _number(draw, 13, 399)
    return (
        f"{subject_en} is {english_number(number)} years old",
        f"{subject_de} ist {german_number(number)} Jahre alt",
    )


def price(draw: Draw) -> Pair:
    """This hat costs forty-five euros."""
    item = _the(draw, pick(draw, PRICED))
    number = _number(draw, 13, 499)
    if draw() < 0.4:
        return f"{item.en} costs {number} euros", f"{item.de} kostet {number} Euro"
    return (
        f"{item.en} costs {english_number(number)} euros",
        f"{item.de} kostet {german_number(number)} Euro",
    )


def count(draw: Draw) -> Pair:
    """The library has twelve thousand books."""
    noun, english, german, lowest, highest = pick(draw, COUNTED)
    place = _the(draw, noun)
    number = _number(draw, lowest, highest)
    if draw() < 0.3:
        said_en, said_de = f"{number:,}", f"{number:,}".replace(",", ".")
    else:
        said_en, said_de = english_number(number), german_number(number)
    return f"{place.en} has {said_en} {english}", f"{place.de} hat {said_de} {german}"


def distance(draw: Draw) -> Pair:
    """The village is sixty-eight kilometres from Berlin."""
    place = _the(draw, pick(draw, REMOTE))
    number = _number(draw, 13, 199)
    town_en, town_de = pick(draw, TOWNS)
    return (
        f"{place.en} is {english_number(number)} kilometres from {town_en}",
        f"{place.de} ist {german_number(number)} Kilometer von {town_de} entfernt",
    )


def birth(draw: Draw) -> Pair:
    """Anna was born in Rome on the third of May 1987."""
    subject = person_subject(draw, negated=True)
    date_en, date_de = pick(draw, ON_DATES)
    year = pick(draw, YEARS)
    town_en, town_de = pick(draw, TOWNS)
    was, wurde = ("were", "wurden") if subject.person == 2 else ("was", "wurde")
    return (
        f"{subject.en} {was} born in {town_en} {date_en} {year}",
        f"{subject.de} {wurde} {date_de} {year} in {town_de} geboren",
    )


def foundation(draw: Draw) -> Pair:
    """This school was founded in 1887."""
    place = _the(draw, pick(draw, FOUNDED))
    year = 1750 + int(draw() * 270)
    return (
        f"{place.en} was founded in {year}",
        f"{place.de} wurde im Jahr {year} gegründet",
    )


def date(draw: Draw) -> Pair:
    """Today is Monday, the third of May."""
    today_en, today_de = pick(draw, TODAY)
    weekday_en, weekday_de = pick(draw, DAYS)
    month_en, month_de, days = pick(draw, MONTHS)
    day = 1 + int(draw() * days)
    return (
        f"{today_en} {weekday_en}, the {english_ordinal(day)} of {month_en}",
        f"{today_de} {weekday_de}, der {german_ordinal(day)}e {month_de}",
    )


def time_of_day(draw: Draw) -> Pair:
    """It is half past seven in Rome."""
    english, german = pick(draw, CLOCK)
    town_en, town_de = pick(draw, TOWNS)
    return f"it is {english} in {town_en}", f"in {town_de} ist es {german}"


def departure(draw: Draw) -> Pair:
    """The train to Rome leaves at 14:35 from platform 7."""
    town_en, town_de = pick(draw, TOWNS)
    time = f"{5 + int(draw() * 19)}:{int(draw() * 60):02d}"
    platform = 1 + int(draw() * 24)
    return (
        f"the train to {town_en} leaves at {time} from platform {platform}",
        f"der Zug nach {town_de} fährt um {time} Uhr von Gleis {platform} ab",
    )


def appointment(draw: Draw) -> Pair:
    """The meeting takes place on Monday at ten o'clock in room 214."""
    event = _the(draw, pick(draw, APPOINTMENTS))
    day_en, day_de = pick(draw, ON_DAYS)
    time_en, time_de = pick(draw, AT_CLOCK)
    room = 100 + int(draw() * 400)
    return (
        f"{event.en} takes place {day_en} {time_en} in room {room}",
        f"{event.de} findet {day_de} {time_de} in Raum {room} statt",
    )


def duration(draw: Draw) -> Pair:
    """The trip took three hours and twenty minutes."""
    event = _the(draw, pick(draw, EVENTS))
    hours, minutes = 2 + int(draw() * 4), 2 + int(draw() * 58)
    return (
        f"{event.en} took {ONES_EN[hours]} hours and {english_number(minutes)} minutes",
        f"{event.de} dauerte {ONES_DE[hours]} Stunden und {german_number(minutes)} Minuten",
    )


def storey(draw: Draw) -> Pair:
    """The office is on the third floor."""
    place = _the(draw, pick(draw, STOREYS))
    floor = 1 + int(draw() * 20)
    return (
        f"{place.en} is on the {english_ordinal(floor)} floor",
        f"{place.de} ist im {german_ordinal(floor)}en Stock",
    )


def existence(draw: Draw) -> Pair:
    """There are three old churches in this village."""
    noun = pick(draw, SIGHTS)
    choices = [slot for slot in noun.slots[ACCUSATIVE] if not slot.definite]
    phrase = noun_phrase(draw, noun, ACCUSATIVE, pick(draw, choices))
    if draw() < 0.3:
        town_en, town_de = pick(draw, TOWNS)
        where_en, where_de = f"in {town_en}", f"in {town_de}"
    else:
        where_en, where_de = where(draw, pick(draw, REGIONS))
    if draw() < 0.7:
        verb_en, verb_de = ("is", "are")[phrase.person - 1], "gibt"
    else:
        verb_en, verb_de = ("was", "were")[phrase.person - 1], "gab"
    return f"there {verb_en} {phrase.en} {where_en}", f"{where_de} {verb_de} es {phrase.de}"


FIGURES = (
    *(age, price, count, existence) * 2,
    *(distance, birth, foundation, date, time_of_day, departure, appointment, duration, storey),
)
