"""The verbs of the sample corpus, by the frame of what they need beside their subject.

A line reads `english | German | subjects | objects | notes`. English forms are given as
base/past/participle/ing where they are not regular, then a particle. The German principal parts
are infinitive (a separable prefix is set off by `~`), third person present and preterite
(without the prefix) and participle, with a `+` before it where the perfect takes sein. Subjects
and objects are tags of nouns; `person` stands for names and pronouns too. Notes: `static` for a
state, `chance` for what nobody does on purpose, and the manners and places that go well with
the verb; after a verb with a preposition first the German one and its case.
"""

ACCUSATIVE_VERBS = """
see/saw/seen | sehen sieht sah gesehen | person animal | person animal vehicle | chance
buy/bought/bought | kaufen kauft kaufte gekauft | person | thing clothes food drink furniture \
private reading plant machine | town
sell/sold/sold | verkaufen verkauft verkaufte verkauft | person | thing clothes furniture \
private reading machine | town
find/found/found | finden findet fand gefunden | person | thing reading clothes animal | chance
look for | suchen sucht suchte gesucht | person | thing reading clothes person kept
love | lieben liebt liebte geliebt | person | person animal | static
visit | besuchen besucht besuchte besucht | person | person town land | nowhere
eat/ate/eaten | essen isst aß gegessen | person | food | quick home
drink/drank/drunk | trinken trinkt trank getrunken | person | drink | quick home
read/read/read | lesen liest las gelesen | person | reading
write/wrote/written | schreiben schreibt schrieb geschrieben | person | written
open | öffnen öffnet öffnete geöffnet | person | opened | care
close | schließen schließt schloss geschlossen | person | closed | care
repair | reparieren repariert reparierte repariert | person | vehicle machine repaired \
| thorough
paint | malen malt malte gemalt | person | animal plant painted
photograph | fotografieren fotografiert fotografierte fotografiert | person | person animal \
plant painted
wash | waschen wäscht wusch gewaschen | person | clothes private | thorough
clean | putzen putzt putzte geputzt | person | cleaned | thorough nowhere
cook | kochen kocht kochte gekocht | person | cooked | home
bake | backen backt backte gebacken | person | baked | home
wear/wore/worn | tragen trägt trug getragen | person | clothes
carry | tragen trägt trug getragen | person | carried | care
build/built/built | bauen baut baute gebaut | person | built | nowhere
draw/drew/drawn | zeichnen zeichnet zeichnete gezeichnet | person | animal plant painted
invite | ein~laden lädt lud eingeladen | person | person | nowhere
call | an~rufen ruft rief angerufen | person | person | nowhere
collect | ab~holen holt holte abgeholt | person | person collected
switch on | ein~schalten schaltet schaltete eingeschaltet | person | switched | home
switch off | aus~schalten schaltet schaltete ausgeschaltet | person | switched | home
throw/threw/thrown away | weg~werfen wirft warf weggeworfen | person | thing reading clothes
try on | an~probieren probiert probierte anprobiert | person | clothes | town
tidy up | auf~räumen räumt räumte aufgeräumt | person | tidied | nowhere
prepare | vor~bereiten bereitet bereitete vorbereitet | person | event | thorough
accept | an~nehmen nimmt nahm angenommen | person | accepted | nowhere
bring/brought/brought along | mit~bringen bringt brachte mitgebracht | person | brought \
| nowhere
give/gave/given back | zurück~geben gibt gab zurückgegeben | person | thing reading | nowhere
hear/heard/heard | hören hört hörte gehört | person | person animal heard | chance
look at | an~sehen sieht sah angesehen | person | viewed painted animal
watch | beobachten beobachtet beobachtete beobachtet | person animal | person animal
know/knew/known | kennen kennt kannte gekannt | person | person tale | static
understand/understood/understood | verstehen versteht verstand verstanden | person \
| topic tale | static
forget/forgot/forgotten/forgetting | vergessen vergisst vergaß vergessen | person | lost \
learned | chance nowhere
lose/lost/lost | verlieren verliert verlor verloren | person | lost | chance
answer | beantworten beantwortet beantwortete beantwortet | person | answered | quick
discuss | besprechen bespricht besprach besprochen | person | discussed
solve | lösen löst löste gelöst | person | solved | quick
learn | lernen lernt lernte gelernt | person | learned | quick
meet/met/met | treffen trifft traf getroffen | person | person
hug/hugged/hugged/hugging | umarmen umarmt umarmte umarmt | person | person
greet | begrüßen begrüßt begrüßte begrüßt | person | person
pay/paid/paid | bezahlen bezahlt bezahlte bezahlt | person | paid
choose/chose/chosen | aus~suchen sucht suchte ausgesucht | person | clothes furniture reading \
| town
order | bestellen bestellt bestellte bestellt | person | food drink | town
steal/stole/stolen | stehlen stiehlt stahl gestohlen | person | lost private | chance
hide/hid/hidden | verstecken versteckt versteckte versteckt | person | lost reading
break/broke/broken | zerbrechen zerbricht zerbrach zerbrochen | person | broken | chance
feed/fed/fed | füttern füttert fütterte gefüttert | person | kept
take/took/taken | nehmen nimmt nahm genommen | person | ridden | nowhere
need | brauchen braucht brauchte gebraucht | person | thing clothes furniture machine private \
| static
have/had/had | haben hat hatte gehabt | person | thing clothes furniture private kept | static
like | mögen mag mochte gemocht | person | person animal food drink reading | static
teach/taught/taught | unterrichten unterrichtet unterrichtete unterrichtet | person | child
check | prüfen prüft prüfte geprüft | person | checked | thorough
sign | unterschreiben unterschreibt unterschrieb unterschrieben | person | signed
translate | übersetzen übersetzt übersetzte übersetzt | person | reading | quick
plant | pflanzen pflanzt pflanzte gepflanzt | person | plant | nowhere
save | retten rettet rettete gerettet | person | person animal
chase | jagen jagt jagte gejagt | animal | animal | land
bite/bit/bitten | beißen beißt biss gebissen | animal | person | chance nowhere
"""

DATIVE_VERBS = """
help | helfen hilft half geholfen | person | person
thank | danken dankt dankte gedankt | person | person
follow | folgen folgt folgte +gefolgt | person animal | person animal
congratulate | gratulieren gratuliert gratulierte gratuliert | person | person
trust | vertrauen vertraut vertraute vertraut | person | person | static
listen to | zu~hören hört hörte zugehört | person | person
forgive/forgave/forgiven | verzeihen verzeiht verzieh verziehen | person | person | nowhere
contradict | widersprechen widerspricht widersprach widersprochen | person | person | nowhere
belong to | gehören gehört gehörte gehört | thing clothes private furniture reading | person \
| static
"""

GIVING_VERBS = """
give/gave/given | geben gibt gab gegeben | person | thing reading clothes food
show/showed/shown | zeigen zeigt zeigte gezeigt | person | thing reading clothes private
send/sent/sent | schicken schickt schickte geschickt | person | written collected
lend/lent/lent | leihen leiht lieh geliehen | person | thing reading clothes private
bring/brought/brought | bringen bringt brachte gebracht | person | thing reading clothes food
sell/sold/sold | verkaufen verkauft verkaufte verkauft | person | thing furniture private
offer | an~bieten bietet bot angeboten | person | food thing
explain - | erklären erklärt erklärte erklärt | person | topic
recommend - | empfehlen empfiehlt empfahl empfohlen | person | reading
describe - | beschreiben beschreibt beschrieb beschrieben | person | topic painted
tell/told/told | erzählen erzählt erzählte erzählt | person | told
"""

PREPOSITION_VERBS = """
wait for | warten wartet wartete gewartet | person | person expected | auf A
think/thought/thought of | denken denkt dachte gedacht | person | person event | an A nowhere
talk to | sprechen spricht sprach gesprochen | person | person | mit D
talk about | sprechen spricht sprach gesprochen | person | topic tale event reading | über A
dream of | träumen träumt träumte geträumt | person | vehicle event animal | von D chance
laugh about | lachen lacht lachte gelacht | person | funny | über A
work on | arbeiten arbeitet arbeitete gearbeitet | person | worked | an D
take/took/taken part in | teil~nehmen nimmt nahm teilgenommen | person | event | an D nowhere
look forward to | sich freuen freut freute gefreut | person | event | auf A nowhere
remember - | sich erinnern erinnert erinnerte erinnert | person | person event tale | an A \
static
look after | sich kümmern kümmert kümmerte gekümmert | person | person kept plant | um A
complain about | sich beschweren beschwert beschwerte beschwert | person | food event vehicle \
machine | über A
apologise to | sich entschuldigen entschuldigt entschuldigte entschuldigt | person | person \
| bei D
"""

PLAIN_VERBS = """
sleep/slept/slept | schlafen schläft schlief geschlafen | person animal | | well home
laugh | lachen lacht lachte gelacht | person | | sound
cry | weinen weint weinte geweint | person | | sound
work | arbeiten arbeitet arbeitete gearbeitet | person | | hard well
dance | tanzen tanzt tanzte getanzt | person | | well slow
sing/sang/sung | singen singt sang gesungen | person | | sound well
swim/swam/swum/swimming | schwimmen schwimmt schwamm +geschwommen | person | | quick shore
smile | lächeln lächelt lächelte gelächelt | person
arrive | an~kommen kommt kam +angekommen | person
get/got/got/getting up | auf~stehen steht stand +aufgestanden | person | | slow nowhere
wake/woke/woken up | auf~wachen wacht wachte +aufgewacht | person | | slow home chance
fall/fell/fallen asleep | ein~schlafen schläft schlief +eingeschlafen | person | | quick home \
chance
come/came/come back | zurück~kommen kommt kam +zurückgekommen | person | | quick nowhere
go/went/gone out | aus~gehen geht ging +ausgegangen | person | | nowhere
rest | sich aus~ruhen ruht ruhte ausgeruht | person | | home
hurry | sich beeilen beeilt beeilte beeilt | person | | nowhere
watch television | fern~sehen sieht sah ferngesehen | person | | home
run/ran/run/running | laufen läuft lief +gelaufen | animal | | quick slow land
jump | springen springt sprang +gesprungen | animal | | home
bark | bellen bellt bellte gebellt | barks | | sound home
leave/left/left | ab~fahren fährt fuhr +abgefahren | public | | nowhere
stop/stopped/stopped/stopping | an~halten hält hielt angehalten | public | | nowhere
break/broke/broken down | kaputt~gehen geht ging +kaputtgegangen | machine | | nowhere chance
fall/fell/fallen down | herunter~fallen fällt fiel +heruntergefallen | broken | | nowhere chance
begin/began/begun/beginning | beginnen beginnt begann begonnen | event | | nowhere chance
end | enden endet endete geendet | event | | nowhere chance
take/took/taken place | statt~finden findet fand stattgefunden | event | | town chance
"""

MOTION_VERBS = """
go/went/gone | gehen geht ging +gegangen | person | town land shore | quick
drive/drove/driven | fahren fährt fuhr +gefahren | person | town land city | slow
travel/travelled/travelled/travelling | reisen reist reiste +gereist | person | city
fly/flew/flown | fliegen fliegt flog +geflogen | person | city
return | zurück~kehren kehrt kehrte +zurückgekehrt | person | city
move | um~ziehen zieht zog +umgezogen | person | city
"""

POSITION_VERBS = """
live | wohnen wohnt wohnte gewohnt | person | city land | static
stay | bleiben bleibt blieb +geblieben | person | home town city
stand/stood/stood | stehen steht stand gestanden | person animal | beside
sit/sat/sat/sitting | sitzen sitzt saß gesessen | person | seat
lie/-/-/lying | liegen liegt lag gelegen | person animal | seat
"""

PLACING_VERBS = """
lay/laid/laid | legen legt legte gelegt | person | flat clothes
place | stellen stellt stellte gestellt | person | standing
"""

THAT_VERBS = """
say/said/said | sagen sagt sagte gesagt | person | | nowhere
know/knew/known | wissen weiß wusste gewusst | person | | static
believe | glauben glaubt glaubte geglaubt | person | | static
hope | hoffen hofft hoffte gehofft | person | | nowhere static
fear | befürchten befürchtet befürchtete befürchtet | person | | static
notice | bemerken bemerkt bemerkte bemerkt | person | | nowhere chance
hear/heard/heard | hören hört hörte gehört | person | | nowhere chance
explain | erklären erklärt erklärte erklärt | person | | nowhere
forget/forgot/forgotten/forgetting | vergessen vergisst vergaß vergessen | person | | nowhere \
chance
"""

ASKING_VERBS = """
ask | fragen fragt fragte gefragt | person | | nowhere
wonder | sich fragen fragt fragte gefragt | person | | static
"""

INFINITIVE_VERBS = """
try | versuchen versucht versuchte versucht | person | | nowhere
begin/began/begun/beginning | beginnen beginnt begann begonnen | person | | nowhere
decide | beschließen beschließt beschloss beschlossen | person | | nowhere chance
promise | versprechen verspricht versprach versprochen | person | | nowhere
plan/planned/planned/planning | planen plant plante geplant | person | | static
forget/forgot/forgotten/forgetting | vergessen vergisst vergaß vergessen | person | | nowhere \
chance
refuse | sich weigern weigert weigerte geweigert | person | | nowhere chance
"""

WEATHER_VERBS = """
rain | regnen regnet regnete geregnet | person | | nowhere
snow | schneien schneit schneite geschneit | person | | nowhere
"""
