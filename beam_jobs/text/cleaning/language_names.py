"""English names of languages, for people who type them where a code is needed."""

from __future__ import annotations

# The languages of fastText's lid.176 that people write most about, by ISO 639-1 (639-3 where there
# is no shorter code).
_NAMES = """
af afrikaans, am amharic, ar arabic, arz egyptian arabic, as assamese, ast asturian, az azerbaijani,
be belarusian, bg bulgarian, bn bengali, bo tibetan, br breton, bs bosnian, ca catalan, ceb cebuano,
ckb sorani, cs czech, cy welsh, da danish, de german, dv dhivehi, el greek, en english,
eo esperanto, es spanish, et estonian, eu basque, fa persian, fi finnish, fr french, fy frisian,
ga irish, gd scottish gaelic, gl galician, gn guarani, gu gujarati, he hebrew, hi hindi,
hr croatian, ht haitian creole, hu hungarian, hy armenian, ia interlingua, id indonesian,
ilo ilocano, is icelandic, it italian, ja japanese, jv javanese, ka georgian, kk kazakh, km khmer,
kn kannada, ko korean, ku kurdish, kw cornish, ky kyrgyz, la latin, lb luxembourgish, lo lao,
lt lithuanian, lv latvian, mg malagasy, mk macedonian, ml malayalam, mn mongolian, mr marathi,
ms malay, mt maltese, my burmese, nds low german, ne nepali, nl dutch, nn norwegian nynorsk,
no norwegian, oc occitan, or odia, os ossetian, pa punjabi, pl polish, ps pashto, pt portuguese,
qu quechua, rm romansh, ro romanian, ru russian, sa sanskrit, sc sardinian, scn sicilian, sco scots,
sd sindhi, sh serbo-croatian, si sinhala, sk slovak, sl slovenian, so somali, sq albanian,
sr serbian, su sundanese, sv swedish, sw swahili, ta tamil, te telugu, tg tajik, th thai,
tk turkmen, tl tagalog, tr turkish, tt tatar, ug uyghur, uk ukrainian, ur urdu, uz uzbek,
vi vietnamese, wa walloon, war waray, wuu wu, xmf mingrelian, yi yiddish, yo yoruba, yue cantonese,
zh chinese
"""
# Other names, and codes of countries that are taken for those of their language.
_OTHERS = """
cs cz, da dk, de deu, de deutsch, de ger, el gr, el hellenic, en eng, en uk english, en us english,
es castilian, es spa, fa farsi, fr fra, fr fre, he iw, ja jp, ko kr, nl flemish, no bokmal, no nb,
pt brazilian, ro moldovan, ru rus, si sinhalese, sl slovene, tl filipino, zh cn, zh mandarin
"""


def _codes_in(text: str) -> dict[str, str]:
    pairs = (entry.split(maxsplit=1) for entry in text.replace("\n", " ").split(","))
    return {name: code for code, name in pairs}


# By name, in lower case.
LANGUAGE_CODES = _codes_in(_NAMES) | _codes_in(_OTHERS)
