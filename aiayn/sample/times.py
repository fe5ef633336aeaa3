"""When something happens: tables of English and German times, by the tense they go with."""

from aiayn.sample.numbers import (
    MONTHS,
    ONES_DE,
    ONES_EN,
    clock_times,
    dates,
)

Pair = tuple[str, str]
Table = tuple[Pair, ...]


def _pairs(text: str) -> Table:
    lines = (line.split(" = ") for line in text.strip().splitlines())
    return tuple((english, german) for english, german in lines)


DAYS = _pairs("""
Monday = Montag
Tuesday = Dienstag
Wednesday = Mittwoch
Thursday = Donnerstag
Friday = Freitag
Saturday = Samstag
Sunday = Sonntag
""")

GONE = _pairs("""
yesterday = gestern
yesterday morning = gestern Morgen
yesterday evening = gestern Abend
this morning = heute Morgen
last night = letzte Nacht
last week = letzte Woche
last month = letzten Monat
last year = letztes Jahr
last summer = letzten Sommer
last winter = letzten Winter
""")

COMING = _pairs("""
tomorrow = morgen
tomorrow morning = morgen früh
tomorrow evening = morgen Abend
this evening = heute Abend
the day after tomorrow = übermorgen
next week = nächste Woche
next month = nächsten Monat
next year = nächstes Jahr
next summer = nächsten Sommer
""")

CURRENT = _pairs("""
today = heute
this week = diese Woche
this month = diesen Monat
this year = dieses Jahr
""")

NOW = _pairs("""
today = heute
now = jetzt
tomorrow = morgen
this evening = heute Abend
this afternoon = heute Nachmittag
""")

REPEATED = _pairs("""
every day = jeden Tag
every morning = jeden Morgen
every evening = jeden Abend
every week = jede Woche
every month = jeden Monat
every year = jedes Jahr
every summer = jeden Sommer
in the morning = am Morgen
in the afternoon = am Nachmittag
in the evening = am Abend
at night = in der Nacht
in spring = im Frühling
in summer = im Sommer
in autumn = im Herbst
in winter = im Winter
at the weekend = am Wochenende
twice a week = zweimal pro Woche
once a month = einmal im Monat
""")

AROUND_EVENTS = _pairs("""
before breakfast = vor dem Frühstück
after breakfast = nach dem Frühstück
before lunch = vor dem Mittagessen
after lunch = nach dem Mittagessen
before dinner = vor dem Abendessen
after dinner = nach dem Abendessen
during the break = während der Pause
during the storm = während des Sturms
after the concert = nach dem Konzert
before the exam = vor der Prüfung
after the meeting = nach der Besprechung
during the lecture = während der Vorlesung
""")

UNITS = (("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren"))
COUNTS = tuple(zip(ONES_EN[2:13], ONES_DE[2:13], strict=True))

AGO = tuple(
    (f"{n_en} {en} ago", f"vor {n_de} {de}") for n_en, n_de in COUNTS for en, de in UNITS
)
HENCE = tuple(
    (f"in {n_en} {en}", f"in {n_de} {de}") for n_en, n_de in COUNTS for en, de in UNITS
)

ON_DAYS = tuple((f"on {en}", f"am {de}") for en, de in DAYS)
ON_MORNINGS = tuple(
    (f"on {en} {part_en}", f"am {de}{part_de}")
    for en, de in DAYS
    for part_en, part_de in (("morning", "morgen"), ("evening", "abend"))
)
ON_EVERY = tuple((f"on {en}s", f"{de.lower()}s") for en, de in DAYS)
IN_MONTHS = tuple((f"in {en}", f"im {de}") for en, de, _ in MONTHS)
YEARS = range(1950, 2025)
IN_YEARS = tuple((f"in {year}", f"im Jahr {year}") for year in YEARS)
ON_DATES = tuple(dates())
AT_CLOCK = tuple((f"at {en}", f"um {de}") for en, de in clock_times())

PAST_TIMES = (
    *(GONE,) * 5,
    *(AROUND_EVENTS,) * 2,
    *(AGO, ON_DAYS, ON_MORNINGS, ON_DATES, IN_MONTHS, IN_YEARS, AT_CLOCK),
)
FUTURE_TIMES = (
    *(COMING,) * 5,
    *(HENCE, ON_DAYS, ON_MORNINGS, ON_DATES, IN_MONTHS, AT_CLOCK),
)
HABITS = (*(REPEATED,) * 5, *(ON_EVERY,) * 2, AT_CLOCK, AROUND_EVENTS)
MODAL_TIMES = (*(NOW,) * 4, ON_DAYS, ON_MORNINGS, AT_CLOCK, COMING)
PERFECT_TIMES = (CURRENT,)
