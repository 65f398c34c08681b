"""Which encoding a file is in: marks, declarations, escape sequences, statistics, or none."""

# ruff: noqa: RUF001, the sentences of other languages have letters that look like Latin ones.

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.corpus.encoding_declarations import codec_of, declared_in_page, declared_in_text
from beam_jobs.corpus.encodings import decode, detected
from beam_jobs.corpus.formats.html import decode_page
from beam_jobs.corpus.record import Rejection
from tests.fixtures.proofs import examples

RUSSIAN = """\
Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и
совестью и должны поступать в отношении друг друга в духе братства. Каждый человек должен обладать
всеми правами и всеми свободами, без какого бы то ни было различия, как-то в отношении расы, цвета
кожи, пола, языка, религии, политических или иных убеждений.
"""
BULGARIAN = """\
Всички хора се раждат свободни и равни по достойнство и права. Те са надарени с разум и съвест и
следва да се отнасят помежду си в дух на братство. Всеки човек има право на всички права и свободи,
провъзгласени в тази Декларация, без никакви различия, основани на раса, цвят на кожата, пол, език.
"""
ARABIC = """\
يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميراً وعليهم أن يعامل بعضهم
بعضاً بروح الإخاء. لكل إنسان حق التمتع بكافة الحقوق والحريات الواردة في هذا الإعلان، دون أي تمييز،
كالتمييز بسبب العنصر أو اللون أو الجنس أو اللغة أو الدين أو الرأي السياسي.
"""
HUNGARIAN = """\
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és
lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy viseltessenek. Mindenki
hivatkozhat a jelen nyilatkozatban foglalt összes jogokra és szabadságokra, bármely megkülönböztetés
nélkül, mint például fajra, színre, nemre, nyelvre, vallásra, politikai vagy bármely más nézetre.
"""
GERMAN = """\
Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen
begabt und sollen einander im Geist der Brüderlichkeit begegnen. Jeder hat Anspruch auf alle in
dieser Erklärung verkündeten Rechte und Freiheiten, ohne irgendeinen Unterschied.
"""
FRENCH = """\
Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et
de conscience et doivent agir les uns envers les autres dans un esprit de fraternité. Chacun peut se
prévaloir de tous les droits et de toutes les libertés proclamés dans la présente Déclaration.
"""
JAPANESE = """\
すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と
良心とを授けられており、互いに同胞の精神をもって行動しなければならない。すべて人は、人種、皮膚の色、
性、言語、宗教、政治上その他の意見による差別をも受けることなく、権利と自由とを享有することができる。
"""
KOREAN = """\
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을
부여받았으며 서로 형제애의 정신으로 행동하여야 한다. 모든 사람은 인종, 피부색, 성, 언어, 종교 등
어떠한 종류의 차별이 없이, 이 선언에 규정된 모든 권리와 자유를 향유할 자격이 있다.
"""
CHINESE = """\
人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。人人有资格享受
本宣言所载的一切权利和自由，不分种族、肤色、性别、语言、宗教、政治或其他见解、国籍或社会出身、财产。
"""
UNDECLARED = [
    *((encoding, RUSSIAN) for encoding in ("cp855", "mac-cyrillic", "cp1251", "koi8-r", "cp866")),
    *((encoding, BULGARIAN) for encoding in ("cp855", "iso8859-5", "mac-cyrillic", "cp1251")),
    *((encoding, ARABIC) for encoding in ("cp1256", "iso8859-6")),
    *((encoding, HUNGARIAN) for encoding in ("cp1250", "iso8859-2", "cp852")),
    *((encoding, GERMAN) for encoding in ("cp1252", "iso8859-1", "cp850", "mac-roman")),
    *((encoding, FRENCH) for encoding in ("cp1252", "iso8859-15", "cp437", "mac-roman")),
    *((encoding, JAPANESE) for encoding in ("iso2022_jp", "euc_jp", "cp932")),
    *((encoding, KOREAN) for encoding in ("iso2022_kr", "euc_kr", "johab")),
    *((encoding, CHINESE) for encoding in ("hz", "gb18030", "big5hkscs")),
    *((encoding, RUSSIAN) for encoding in ("utf-16-le", "utf-32-be")),
]
TRADITIONAL = str.maketrans("严权们赋应关对资宣载", "嚴權們賦應關對資宣載")


@pytest.mark.parametrize(("encoding", "text"), UNDECLARED)
def test_the_encoding_of_a_few_sentences_is_detected(encoding, text):
    if encoding == "big5hkscs":
        text = text.translate(TRADITIONAL).encode("big5", "ignore").decode("big5")
    assert decode(text.encode(encoding), "auto")[0] == text


@pytest.mark.parametrize("text", ["a caf\u00e9 in Paris", "don\u2019t \u201cask\u201d me"])
def test_few_western_signs_among_ascii_are_windows_1252(text):
    assert decode(text.encode("cp1252"), "auto") == (text, "cp1252")


UNCLEAR = b"\xa3 9\n"


def test_a_text_that_fits_several_encodings_is_rejected_with_their_names():
    """A pound sign in cp1252, a letter in cp852 and in the Cyrillic ones: no word tells which."""
    with pytest.raises(Rejection) as raised:
        decode(UNCLEAR, "auto")
    assert raised.value.reason == "unclear-encoding"
    advice = "convert it to UTF-8, or use --encoding NAME"
    assert raised.value.detail == f"it may be cp1252, cp852 or cp866; {advice}"


def test_damaged_utf8_is_not_read_as_another_encoding():
    data = FRENCH.encode()
    for damaged in (data[: data.rindex(b"\xc3") + 1], data.replace(b" ", b" \xff", 1)):
        with pytest.raises(Rejection, match=r"bad-encoding: byte 0x.. at offset \d+ is not valid"):
            decode(damaged, "auto")


def page(declaration, text, encoding):
    return f"<html><head>{declaration}</head><p>{text}</p></html>".encode(encoding)


META = '<meta charset="{}">'
TYPE = "<meta content='text/html; charset={}' http-equiv=Content-Type>"
SHORT = "\u017e\u00e1ba"  # too short for statistics


@pytest.mark.parametrize("declaration", [META, TYPE, "<META  CHARSET = {} >", "<meta/charset={}>"])
def test_a_page_declares_its_encoding(declaration):
    data = page(declaration.format("windows-1250"), SHORT, "cp1250")
    assert decode_page(data) == (data.decode("cp1250"), "cp1250")


@pytest.mark.parametrize(
    "declaration",
    [
        "<!-- " + META.format("iso-8859-5") + " -->",
        '<meta name="description" content="charset=iso-8859-5">',
        "<title>charset=iso-8859-5</title>",
        META.format("no-such-encoding"),
        META.format("utf-8"),  # a wrong declaration
        META.format("shift_jis"),  # it does not decode
        META.format("utf-7"),
        " " * 1024 + META.format("iso-8859-5"),  # browsers look no further
    ],
)
def test_what_does_not_declare_an_encoding_is_not_followed(declaration):
    data = page(declaration, HUNGARIAN, "cp1250")
    assert decode_page(data)[0] == data.decode("cp1250")


def test_the_header_of_a_server_comes_before_the_meta_tag():
    data = page(META.format("windows-1251"), SHORT, "cp1250")
    assert decode_page(data, "windows-1250")[1] == "cp1250"
    assert decode_page(data, "utf-8")[1] == "cp1251"  # the header does not decode
    assert decode_page(data, "no-such-encoding")[1] == "cp1251"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_comes_before_every_declaration(encoding):
    data = page(META.format("windows-1251"), GERMAN, encoding)
    text = page(META.format("windows-1251"), GERMAN, "utf-8").decode()
    assert decode_page(data, "koi8-r")[0] == text
    assert decode(data, "auto", declared=["koi8-r"])[0] == text


def test_valid_utf8_comes_before_a_declaration_of_bytes():
    data = page(META.format("iso-8859-1"), GERMAN, "utf-8")
    assert decode_page(data, "iso-8859-1") == (data.decode(), "utf-8")


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ISO-8859-2", "KOI8-R", "Shift_JIS", "cp855"])
def test_xml_declares_its_encoding(encoding, file, documents):
    word = {"KOI8-R": "\u0449\u0438", "cp855": "\u0449\u0438", "Shift_JIS": "\u4e16"}.get(
        encoding, "\u00e1"
    )
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<a>{word}</a>\n'
    data = text.encode(encoding)
    for option in ("auto", "utf-8"):
        assert list(documents(file("a.xml", data), encoding=option).texts.values()) == [word]
    plain = file("a.xml", data)
    assert list(documents(plain, format="txt", encoding="auto").texts.values()) == [text]
    assert not documents(plain, format="txt").texts  # UTF-8 is the default


def test_xml_means_what_it_says_and_html_what_browsers_do():
    data = b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\x93\xe9\x94</a>'
    assert decode(data, "auto", declared=declared_in_text(data))[1] == "iso8859-1"
    assert decode_page(data)[1] == "cp1252"


@pytest.mark.parametrize(
    "line",
    ["# -*- coding: cp1250 -*-", "# x\n# vim: set fileencoding=cp1250 :", "vim: fenc=cp1250"],
)
def test_a_line_for_editors_declares_the_encoding(line, file, documents):
    text = f"{line}\n{SHORT}\n"
    read = documents(file("a.txt", text.encode("cp1250")), encoding="auto")
    assert [(one.text, one.encoding) for one in read.documents.values()] == [(text, "cp1250")]
    third = f"1\n2\n{line}\n{HUNGARIAN}"
    assert not list(declared_in_text(third.encode("cp1250")))


def test_names_of_the_standard_are_known():
    """Of every encoding of the WHATWG standard, one name that Python does not know."""
    expected = {
        "unicode11utf8": "utf-8",
        "dos-874": "cp874",
        "x-sjis": "cp932",
        "x-gbk": "gb18030",
        "logical": "iso8859-8",
        "csisolatin9": "iso8859-15",
        "koi8-ru": "koi8-u",
        "x-mac-ukrainian": "mac-cyrillic",
        "windows-949": "cp949",
        "x-x-big5": "big5",
        "iso88592": "iso8859-2",
        "x-cp1257": "cp1257",
        "x-euc-jp": "euc_jp",
        " UTF8 ": "utf-8",
        "'Windows-1252'": "cp1252",
        "rot13": "",
        "utf-7": "",
        "": "",
    }
    assert {name: codec_of(name) for name in expected} == expected


def test_terminal_colors_and_tildes_are_no_escape_sequences():
    for text in ("\x1b[31mred\x1b(B\x1b[0m", "a ~{b} c ~}", "~{ }~", "~{x~}"):
        assert decode(text.encode(), "auto") == (text, "utf-8")


def test_iso_2022_cn_is_rejected_by_name():
    with pytest.raises(Rejection, match="ISO-2022-CN, for which Python has no codec"):
        decode(b"\x1b$)A\x0e=;;;\x0f\n", "auto")


# A line that ends in two-byte mode: the next one means nothing without it.
OPEN = b"\x1b$B%F%9%H\n%F%9%H\x1b(B\nend\n"


@pytest.mark.parametrize("encoding", ["iso2022_jp", "iso2022_kr", "hz"])
def test_lines_in_an_encoding_with_a_state(encoding, file, documents):
    text = {"iso2022_jp": JAPANESE, "iso2022_kr": KOREAN, "hz": CHINESE}[encoding]
    lines = text.splitlines()
    for name in ("auto", encoding):
        read = documents(file("a.txt", text.encode(encoding)), encoding=name, per_line=True)
        assert list(read.texts.values()) == lines
        assert {one.encoding for one in read.documents.values()} == {encoding}
        rows = "text,label\n" + "".join(f'"{line}",1\n' for line in lines)
        read = documents(file("a.csv", rows.encode(encoding)), encoding=name)
        assert list(read.texts.values()) == lines
        assert {one.encoding for one in read.documents.values()} == {encoding}
        rows = "".join(f'{{"text": "{line}"}}\n' for line in lines)
        read = documents(file("a.jsonl", rows.encode(encoding)), encoding=name, no_labels=True)
        assert list(read.texts.values()) == lines


def test_a_state_that_passes_to_the_next_line_is_followed(file, documents):
    read = documents(file("a.txt", OPEN), encoding="auto", per_line=True)
    assert list(read.texts.values()) == ["\u30c6\u30b9\u30c8", "\u30c6\u30b9\u30c8", "end"]
    large = OPEN * 44_000  # 1.2 MB, would be split otherwise
    read = documents(file("b.txt", large), encoding="auto", per_line=True)
    assert len(read.texts) == 132_000 and "%F" not in "".join(read.texts.values())


def test_cut_lines_in_an_encoding_with_a_state_are_rejected_as_a_file(file, documents):
    data = gzip.compress(JAPANESE.encode("iso2022_jp") * 50, mtime=0)
    read = documents(file("a.txt.gz", data[:-20]), encoding="auto", per_line=True)
    assert not read.texts and len(read.rejects) == 1


def test_lines_of_an_unclear_encoding_are_rejected_as_a_file(file, documents):
    for name, lines in {"a.txt": UNCLEAR, "b.csv": b"text\n" + UNCLEAR}.items():
        read = documents(file(name, lines), encoding="auto", per_line=True, no_labels=True)
        assert list(read.reasons.values()) == ["unclear-encoding"]
        assert [one.data for one in read.rejects.values()] == [lines]


def test_a_bad_line_of_utf8_costs_that_line(file, documents):
    data = FRENCH.encode() + b"bad \xff\n" + FRENCH.encode()
    read = documents(file("a.txt", data), encoding="auto", per_line=True)
    assert list(read.texts.values()) == [*FRENCH.splitlines()] * 2
    assert list(read.reasons.values()) == ["bad-encoding"]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.binary(max_size=60), st.sampled_from([b"", b"<?xml encoding='", b"<meta charset=", b"~{"])
)
def test_any_bytes_are_text_or_rejected(data, begin):
    data = begin + data
    for names in (declared_in_page(data), declared_in_text(data), ()):
        try:
            text, name = decode(data, "auto", declared=names)
        except Rejection as rejection:
            assert rejection.reason in ("bad-encoding", "binary-data", "unclear-encoding")
        else:
            assert text == data.decode(name).removeprefix("\ufeff")


def test_the_same_bytes_are_always_the_same_encoding():
    data = HUNGARIAN.encode("iso8859-2")
    assert len({detected(data) for _ in range(5)}) == 1
