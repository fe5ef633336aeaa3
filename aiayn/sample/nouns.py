"""The nouns of the sample corpus: names of people and places, and everything else by kind.

A line of NOUNS reads `english (plural) | gender German genitive plural | tags`. The English
plural is given where it is irregular. The genitive is `-s`, `-es` or `-ses`, or `=n`, `=en` for
a weak noun, which has this ending in every case but the nominative; a feminine noun has none.
A `.` as plural: there is none (mass nouns); a `.` as singular: there is only a plural.
A tag says what verbs and adjectives go with a noun; the kind above a block is its first tag.
"""

NOUNS = """
[worker]
teacher | m Lehrer -s Lehrer | mine
doctor | m Arzt -es Ärzte | mine
student | m Student =en Studenten | mine
neighbour | m Nachbar =n Nachbarn | mine
policeman policemen | m Polizist =en Polizisten
baker | m Bäcker -s Bäcker
farmer | m Bauer =n Bauern
engineer | m Ingenieur -s Ingenieure
artist | m Künstler -s Künstler
musician | m Musiker -s Musiker
lawyer | m Anwalt -s Anwälte | mine
journalist | m Journalist =en Journalisten
cook | m Koch -s Köche | mine
waiter | m Kellner -s Kellner
colleague | m Kollege =n Kollegen | mine
guest | m Gast -es Gäste | mine
tourist | m Tourist =en Touristen
judge | m Richter -s Richter
gardener | m Gärtner -s Gärtner | mine
pilot | m Pilot =en Piloten
nurse | f Krankenschwester Krankenschwestern
actress | f Schauspielerin Schauspielerinnen
queen | f Königin Königinnen
king | m König -s Könige
prince | m Prinz =en Prinzen
singer | m Sänger -s Sänger
writer | m Schriftsteller -s Schriftsteller
customer | m Kunde =n Kunden | mine
friend | m Freund -es Freunde | mine
boss | m Chef -s Chefs | mine
expert | m Experte =n Experten
man men | m Mann -es Männer
woman women | f Frau Frauen

[child]
child children | n Kind -es Kinder
girl | n Mädchen -s Mädchen
boy | m Junge =n Jungen
pupil | m Schüler -s Schüler

[family]
father | m Vater -s Väter | sole
mother | f Mutter Mütter | sole
brother | m Bruder -s Brüder
sister | f Schwester Schwestern
son | m Sohn -es Söhne
daughter | f Tochter Töchter
uncle | m Onkel -s Onkel
aunt | f Tante Tanten
grandmother | f Großmutter Großmütter
grandfather | m Großvater -s Großväter
_ parents | m . . Eltern
_ grandparents | m . . Großeltern

[animal]
dog | m Hund -es Hunde | kept barks worn
cat | f Katze Katzen | kept
horse | n Pferd -es Pferde | kept
rabbit | n Kaninchen -s Kaninchen | kept
cow | f Kuh Kühe | kept
pig | n Schwein -es Schweine | kept
duck | f Ente Enten | kept
goat | f Ziege Ziegen | kept
bird | m Vogel -s Vögel | kept
mouse mice | f Maus Mäuse
bear | m Bär =en Bären
lion | m Löwe =n Löwen
elephant | m Elefant =en Elefanten
monkey | m Affe =n Affen
fox | m Fuchs -es Füchse
wolf wolves | m Wolf -es Wölfe

[fruit]
apple | m Apfel -s Äpfel
orange | f Orange Orangen
pear | f Birne Birnen
tomato tomatoes | f Tomate Tomaten
carrot | f Karotte Karotten | cooked

[dish]
soup | f Suppe Suppen | cooked
egg | n Ei -es Eier | cooked
potato potatoes | f Kartoffel Kartoffeln | cooked
pizza | f Pizza Pizzas | baked
rice | m Reis -es . | cooked
meat | n Fleisch -es . | cooked

[snack]
cake | m Kuchen -s Kuchen | baked brought
salad | m Salat -s Salate | brought
bread | n Brot -es . | baked
cheese | m Käse -s .
chocolate | f Schokolade .
honey | m Honig -s .

[brew]
coffee | m Kaffee -s .
tea | m Tee -s .
cocoa | m Kakao -s .

[cooler]
milk | f Milch .
water | n Wasser -s .
juice | m Saft -es . | brought
lemonade | f Limonade . | brought

[reading]
book | n Buch -es Bücher | written brought flat worked
letter | m Brief -es Briefe | written answered signed flat expected
newspaper | f Zeitung Zeitungen | flat
magazine | f Zeitschrift Zeitschriften | flat
report | m Bericht -s Berichte | written signed discussed checked worked
article | m Artikel -s Artikel | written worked
novel | m Roman -s Romane | written worked
poem | n Gedicht -s Gedichte | written learned
postcard | f Postkarte Postkarten | written flat

[clothes]
hat | m Hut -es Hüte | worn
coat | m Mantel -s Mäntel | worn
shirt | n Hemd -es Hemden
dress | n Kleid -es Kleider
jacket | f Jacke Jacken
skirt | m Rock -s Röcke
shoe | m Schuh -s Schuhe | cleaned
scarf scarves | m Schal -s Schals | worn
glove | m Handschuh -s Handschuhe
jumper | m Pullover -s Pullover
cap | f Mütze Mützen | worn
blouse | f Bluse Blusen

[thing]
key | m Schlüssel -s Schlüssel | flat lost
bag | f Tasche Taschen | carried opened lost worn closed
umbrella | m Regenschirm -s Regenschirme | opened lost brought worn closed
camera | f Kamera Kameras | lost repaired brought worn
watch | f Armbanduhr Armbanduhren | lost repaired
cup | f Tasse Tassen | standing broken hollow
bottle | f Flasche Flaschen | standing broken opened hollow closed
plate | m Teller -s Teller | standing broken hollow
glass | n Glas -es Gläser | standing broken hollow
knife knives | n Messer -s Messer | flat
spoon | m Löffel -s Löffel | flat
fork | f Gabel Gabeln | flat
basket | m Korb -es Körbe | standing carried worn hollow
suitcase | m Koffer -s Koffer | standing carried opened lost worn closed
present | n Geschenk -s Geschenke | opened accepted brought
picture | n Bild -es Bilder | painted viewed
ball | m Ball -es Bälle | lost
box | f Kiste Kisten | standing carried opened closed
ring | m Ring -s Ringe | lost
ticket | n Ticket -s Tickets | flat lost checked
pencil | m Bleistift -s Bleistifte | flat
candle | f Kerze Kerzen | standing
doll | f Puppe Puppen | lost
parcel | n Paket -s Pakete | carried opened collected accepted expected
map | f Landkarte Landkarten | flat viewed
vase | f Vase Vasen | standing broken hollow
coin | f Münze Münzen | lost

[furniture]
table | m Tisch -es Tische | surface repaired
chair | m Stuhl -s Stühle | surface repaired seat
bed | n Bett -es Betten | surface seat
cupboard | m Schrank -s Schränke | repaired opened closed
sofa | n Sofa -s Sofas | surface seat
lamp | f Lampe Lampen | switched
desk | m Schreibtisch -es Schreibtische | surface
mirror | m Spiegel -s Spiegel | broken cleaned
carpet | m Teppich -s Teppiche | surface cleaned
shelf shelves | n Regal -s Regale | surface repaired
clock | f Uhr Uhren | repaired
bench | f Bank Bänke | surface seat

[vehicle]
car | n Auto -s Autos | private
bicycle | n Fahrrad -s Fahrräder | private
motorbike | n Motorrad -s Motorräder | private
lorry | m Lastwagen -s Lastwagen | private
taxi | n Taxi -s Taxis | expected ridden
bus | m Bus -ses Busse | public expected ridden
train | m Zug -es Züge | public expected ridden
tram | f Straßenbahn Straßenbahnen | public expected ridden
ship | n Schiff -es Schiffe | public built
boat | n Boot -es Boote | built private

[machine]
computer | m Computer -s Computer | switched
radio | n Radio -s Radios | switched
television | m Fernseher -s Fernseher | switched
machine | f Maschine Maschinen | switched checked
washing_machine | f Waschmaschine Waschmaschinen | switched
oven | m Ofen -s Öfen | switched cleaned

[part]
door | f Tür Türen | opened repaired closed
window | n Fenster -s Fenster | opened repaired cleaned broken closed
gate | n Tor -es Tore | opened repaired closed
roof | n Dach -es Dächer | repaired

[plant]
flower | f Blume Blumen | painted brought
tree | m Baum -es Bäume | painted
rose | f Rose Rosen | painted brought

[topic]
problem | n Problem -s Probleme | solved discussed worked
question | f Frage Fragen | answered discussed
plan | m Plan -s Pläne | discussed accepted worked
idea | f Idee Ideen | discussed
mistake | m Fehler -s Fehler | funny discussed
rule | f Regel Regeln | learned
solution | f Lösung Lösungen | discussed accepted
decision | f Entscheidung Entscheidungen | discussed accepted
word | n Wort -es Wörter | learned
sentence | m Satz -es Sätze | written learned
exercise | f Aufgabe Aufgaben | solved worked

[tale]
story | f Geschichte Geschichten | told funny written
dream | m Traum -es Träume | told
secret | n Geheimnis -ses Geheimnisse | told
song | n Lied -es Lieder | learned heard
film | m Film -s Filme | funny discussed

[paper]
invitation | f Einladung Einladungen | accepted written
bill | f Rechnung Rechnungen | paid checked
contract | m Vertrag -s Verträge | signed checked discussed worked

[event]
concert | n Konzert -s Konzerte
meeting | f Besprechung Besprechungen
exam | f Prüfung Prüfungen
wedding | f Hochzeit Hochzeiten
trip | f Reise Reisen
match | n Spiel -s Spiele
lecture | f Vorlesung Vorlesungen
party | f Feier Feiern
performance | f Aufführung Aufführungen
conversation | n Gespräch -s Gespräche
"""

PLACES = """
[home]
house | n Haus -es Häuser | built painted | in in zu
kitchen | f Küche Küchen | tidied cleaned | in in in
garden | m Garten -s Gärten | painted | in in in
bedroom | n Schlafzimmer -s Schlafzimmer | tidied | in in in
living_room | n Wohnzimmer -s Wohnzimmer | tidied cleaned | in in in
bathroom | n Badezimmer -s Badezimmer | cleaned | in in in
cellar | m Keller -s Keller | tidied | in in in

[town]
school | f Schule Schulen | built | at in zu
office | n Büro -s Büros | tidied cleaned | in in in
library | f Bibliothek Bibliotheken | built | in in in
museum | n Museum -s Museen | built | in in in
hotel | n Hotel -s Hotels | built | in in zu
restaurant | n Restaurant -s Restaurants | | in in in
theatre | n Theater -s Theater | built | at in in
cinema | n Kino -s Kinos | | at in in
church | f Kirche Kirchen | built painted | in in in
hospital | n Krankenhaus -es Krankenhäuser | built | in in in
station | m Bahnhof -s Bahnhöfe | built | at an zu
airport | m Flughafen -s Flughäfen | built | at an zu
university | f Universität Universitäten | | at an zu
supermarket | m Supermarkt -s Supermärkte | | in in in
bakery | f Bäckerei Bäckereien | | in in zu
factory | f Fabrik Fabriken | built | in in zu
castle | n Schloss -es Schlösser | built painted | in in zu
market | m Markt -es Märkte | | at auf auf
park | m Park -s Parks | | in in in
zoo | m Zoo -s Zoos | | at in in

[land]
city | f Stadt Städte | | in in in
village | n Dorf -es Dörfer | painted | in in in
forest | m Wald -es Wälder | painted | in in in
island | f Insel Inseln | painted | on auf auf
farm | m Bauernhof -s Bauernhöfe | | on auf auf

[landmark]
bridge | f Brücke Brücken | built painted | on auf zu

[shore]
beach | m Strand -es Strände | painted | on an an
lake | m See -s Seen | painted | at an an
river | m Fluss -es Flüsse | painted | at an an
"""

# First words and what they become in German, linking letters and all, > last words.
COMPOUNDS = """
kitchen=Küchen garden=Garten office=Büro school=Schul hotel=Hotel bedroom=Schlafzimmer \
living_room=Wohnzimmer hospital=Krankenhaus library=Bibliotheks cellar=Keller \
> table chair lamp cupboard door window key clock
winter=Winter summer=Sommer > coat jacket dress shoe cap
birthday=Geburtstags wedding=Hochzeits Christmas=Weihnachts > cake present song party
apple=Apfel chocolate=Schokoladen orange=Orangen > cake
potato=Kartoffel tomato=Tomaten carrot=Karotten > soup salad
apple=Apfel orange=Orangen carrot=Karotten tomato=Tomaten > juice
milk=Milch water=Wasser > bottle glass
coffee=Kaffee tea=Tee > cup
concert=Konzert theatre=Theater cinema=Kino train=Zug museum=Museums > ticket
house=Haus car=Auto > key
newspaper=Zeitungs > article
street=Straßen > lamp
apple=Apfel orange=Orangen > tree
travel=Reise school=Schul > bag
village=Dorf city=Stadt > school church
"""

MEN = "Peter Paul Martin Stefan Karl David Jan Robert Simon Daniel Anton Oskar"
WOMEN = "Anna Maria Julia Laura Eva Sophie Lena Clara Sarah Emma Nina Helga"
SURNAMES = "Müller Schmidt Fischer Weber Wagner Becker Hoffmann Schäfer Neumann Vogel"

CITIES = """
Berlin=Berlin Hamburg=Hamburg Dresden=Dresden Leipzig=Leipzig Munich=München Cologne=Köln
Vienna=Wien Zurich=Zürich Paris=Paris London=London Rome=Rom Venice=Venedig Prague=Prag
Warsaw=Warschau Moscow=Moskau Lisbon=Lissabon Copenhagen=Kopenhagen Brussels=Brüssel
Madrid=Madrid Athens=Athen
"""
COUNTRIES = """
Germany=Deutschland France=Frankreich Italy=Italien Spain=Spanien Austria=Österreich
Poland=Polen Sweden=Schweden Norway=Norwegen Denmark=Dänemark Greece=Griechenland
England=England Finland=Finnland
"""
COUNTRIES_WITH_ARTICLE = (("Switzerland", "die Schweiz"), ("Turkey", "die Türkei"))
