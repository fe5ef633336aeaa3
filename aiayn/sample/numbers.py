"""Number words, ordinals, dates and clock times in English and German."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ONES_EN = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen"
)
TENS_EN = _words("_ ten twenty thirty forty fifty sixty seventy eighty ninety")
ONES_DE = _words(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn"
    " fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
TENS_DE = _words("_ zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
ORDINALS_EN = _words(
    "_ first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
UNEVEN_ORDINALS_DE = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}

MONTHS = (
    ("January", "Januar", 31),
    ("February", "Februar", 28),
    ("March", "März", 31),
    ("April", "April", 30),
    ("May", "Mai", 31),
    ("June", "Juni", 30),
    ("July", "Juli", 31),
    ("August", "August", 31),
    ("September", "September", 30),
    ("October", "Oktober", 31),
    ("November", "November", 30),
    ("December", "Dezember", 31),
)

MINUTES = (
    ("five", "fünf"),
    ("ten", "zehn"),
    ("a quarter", "Viertel"),
    ("twenty", "zwanzig"),
)


def english_number(number: int) -> str:
    """Return 0 to 999,999 in words: three hundred and five."""
    if number < 20:
        return ONES_EN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS_EN[tens] + (f"-{ONES_EN[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{ONES_EN[hundreds]} hundred" + (f" and {english_number(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    words = f"{english_number(thousands)} thousand"
    if not rest:
        return words
    return f"{words}{' and ' if rest < 100 else ' '}{english_number(rest)}"


def german_number(number: int, *, one: str = "eins") -> str:
    """Return 0 to 999,999 in words, dreihundertfünf; a one at the end is `one`."""
    if number < 20:
        return one if number == 1 else ONES_DE[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{german_number(ones, one='ein')}und" if ones else "") + TENS_DE[tens]
    power, name = (100, "hundert") if number < 1000 else (1000, "tausend")
    front, rest = divmod(number, power)
    end = german_number(rest, one=one) if rest else ""
    return german_number(front, one="ein") + name + end


def english_ordinal(number: int) -> str:
    """Return the ordinal of 1 to 99: twenty-first."""
    if number < 20:
        return ORDINALS_EN[number]
    tens, ones = divmod(number, 10)
    if ones:
        return f"{TENS_EN[tens]}-{ORDINALS_EN[ones]}"
    return TENS_EN[tens].removesuffix("y") + "ieth"


def german_ordinal(number: int) -> str:
    """Return the ordinal of 1 to 99 without its ending: einundzwanzigst."""
    if number in UNEVEN_ORDINALS_DE:
        return UNEVEN_ORDINALS_DE[number]
    return german_number(number) + ("t" if number < 20 else "st")


def dates() -> list[tuple[str, str]]:
    """Return every day of a year but the leap day, in words and in figures."""
    days = []
    for english, german, length in MONTHS:
        for day in range(1, length + 1):
            ordinal = f"on the {english_ordinal(day)} of {english}"
            days.append((ordinal, f"am {german_ordinal(day)}en {german}"))
            days.append((f"on {day} {english}", f"am {day}. {german}"))
    return days


def clock_times() -> list[tuple[str, str]]:
    """Return the times of a clock as they are spoken: half past seven, halb acht."""
    times = []
    for hour in range(1, 13):
        en, de = ONES_EN[hour], ONES_DE[hour]
        next_de = ONES_DE[hour % 12 + 1]
        times.append((f"{en} o'clock", "ein Uhr" if hour == 1 else f"{de} Uhr"))
        times.append((f"half past {en}", f"halb {next_de}"))
        for minutes_en, minutes_de in MINUTES:
            times.append((f"{minutes_en} past {en}", f"{minutes_de} nach {de}"))
            times.append((f"{minutes_en} to {en}", f"{minutes_de} vor {de}"))
    return times
