"""The adjectives and adverbs of the sample corpus.

A line of ADJECTIVES reads `english comparative superlative | German comparative superlative |
tags of nouns`; `more` stands for an English comparison with more and most, a German stem that
changes before an ending is given after a slash, and `-` says that there are no degrees.
"""

KINDS = {
    "person": "worker child family",
    "object": "thing clothes furniture vehicle machine reading part",
    "goods": "thing clothes furniture vehicle machine",
    "place": "home town land landmark shore",
    "food": "fruit dish snack",
    "drink": "brew cooler",
    "text": "reading tale event",
}

ADJECTIVES = """
old older oldest | alt älter ältest | worker family animal object place
young younger youngest | jung jünger jüngst | worker family animal
new newer newest | neu neuer neuest | object town topic paper
big bigger biggest | groß größer größt | animal fruit thing furniture vehicle machine part \
plant home town land
small smaller smallest | klein kleiner kleinst | child animal fruit object plant place
long longer longest | lang länger längst | clothes text paper
short shorter shortest | kurz kürzer kürzest | clothes text paper
beautiful more | schön schöner schönst | animal clothes thing furniture plant place text
ugly uglier ugliest | hässlich hässlicher hässlichst | clothes thing furniture town
expensive more | teuer/teur teurer teuerst | goods food drink
cheap cheaper cheapest | billig billiger billigst | goods food drink
fast faster fastest | schnell schneller schnellst | vehicle animal machine
slow slower slowest | langsam langsamer langsamst | vehicle machine
strong stronger strongest | stark stärker stärkst | person animal
rich richer richest | reich reicher reichst | worker
poor poorer poorest | arm ärmer ärmst | person
clever cleverer cleverest | klug klüger klügst | person animal
friendly friendlier friendliest | freundlich freundlicher freundlichst | person
famous more | berühmt berühmter berühmtest | worker reading town
tired - | müde/müd - - | person animal
hungry - | hungrig - - | person animal
happy happier happiest | glücklich glücklicher glücklichst | person
sad sadder saddest | traurig trauriger traurigst | person tale
sick - | krank - - | person animal
healthy - | gesund - - | person animal
nervous more | nervös nervöser nervösest | person
polite more | höflich höflicher höflichst | person
brave braver bravest | mutig mutiger mutigst | person
lazy lazier laziest | faul fauler faulst | person animal
curious more | neugierig neugieriger neugierigst | child animal
dangerous more | gefährlich gefährlicher gefährlichst | machine
quiet quieter quietest | ruhig ruhiger ruhigst | child place
loud louder loudest | laut lauter lautest | machine vehicle
warm warmer warmest | warm wärmer wärmst | dish clothes home
cold colder coldest | kalt kälter kältest | dish cooler home shore
hot hotter hottest | heiß heißer heißest | dish brew
fresh - | frisch - - | fruit snack
sweet sweeter sweetest | süß süßer süßest | fruit
delicious - | köstlich - - | food drink
heavy heavier heaviest | schwer schwerer schwerst | carried furniture
difficult more | schwierig schwieriger schwierigst | topic
simple simpler simplest | einfach einfacher einfachst | topic
important more | wichtig wichtiger wichtigst | topic paper event
interesting more | interessant interessanter interessantest | text town topic
boring more | langweilig langweiliger langweiligst | text town
funny funnier funniest | lustig lustiger lustigst | text child
modern more | modern moderner modernst | vehicle machine furniture town
dirty dirtier dirtiest | schmutzig schmutziger schmutzigst | clothes vehicle part home hollow
clean cleaner cleanest | sauber sauberer sauberst | clothes home hollow
good better best | gut besser best | text food drink
bad worse worst | schlecht schlechter schlechtest | text
dark darker darkest | dunkel/dunkl dunkler dunkelst | home
round - | rund - - | furniture
empty - | leer - - | carried hollow town home
wild wilder wildest | wild wilder wildest | animal
red - | rot - - | colour
blue - | blau - - | colour
green - | grün - - | colour
yellow - | gelb - - | colour
black - | schwarz - - | colour
white - | weiß - - | colour
brown - | braun - - | colour
grey - | grau - - | colour
"""

COLOURED = ("clothes", "vehicle", "furniture", "part")
"""Kinds of nouns that may have a colour, alone or after another adjective."""

MANNERS = {
    "quick": ("quickly", "schnell"),
    "slow": ("slowly", "langsam"),
    "care": ("carefully", "vorsichtig"),
    "thorough": ("thoroughly", "gründlich"),
    "hard": ("diligently", "fleißig"),
    "well": ("well", "gut"),
    "sound": ("loudly", "laut"),
}

DEGREES = (("very", "sehr"), ("quite", "ziemlich"), ("too", "zu"), ("really", "wirklich"))

FRONTED = (
    ("unfortunately,", "leider"),
    ("perhaps", "vielleicht"),
    ("of course,", "natürlich"),
    ("therefore", "deshalb"),
    ("luckily,", "zum Glück"),
    ("in this case,", "in diesem Fall"),
)
"""Words before a statement; the German verb then comes before its subject."""
