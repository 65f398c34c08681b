"""XML: which elements are documents, what their text is, and what files cannot do to the job."""

from __future__ import annotations

import gzip

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.corpus.formats.base import FilePart
from beam_jobs.corpus.formats.xml import Xml
from beam_jobs.corpus.reading import read_part
from beam_jobs.corpus.streams import InMemory
from beam_jobs.options import TextOptions
from beam_jobs.quarantine import export, replay_options
from beam_jobs.run import preprocess
from beam_jobs.text.extractor import TextExtractor
from shard_format import InputError, UsageError

ITEMS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:content="c"><channel><title>Feed</title>
<item><title>AT&amp;amp;T</title><description>&lt;p&gt;One &amp;amp; two&lt;/p&gt;&lt;p&gt;Three\
</description><category>a</category></item>
<item><title>Second</title><description>short</description>
<content:encoded><![CDATA[<p>Long <b>b</b>old</p>]]></content:encoded><category>b</category></item>
</channel></rss>"""
PAGES = "<wiki><name>W</name>%s</wiki>"
PAGE = (
    '<page id="%d"><title>P%d</title><revision><text xml:space="preserve">Line\n  two</text>'
    "</revision></page>"
)
PAGE_OPTIONS = {"no_labels": True, "xml_element": "page", "text_column": "revision/text"}
NAMES = ["w.xml/000000000020", "w.xml/000000000122", "w.xml/000000000224"]


def pages(count=3):
    return PAGES % "".join(PAGE % (number, number) for number in range(count))


def texts_of(data, **options):
    """The documents of a file that need no label, as they are read."""
    job = TextOptions(("x",), "out", no_labels=True, format="xml", **options)
    part = FilePart("f", lambda: InMemory(data if isinstance(data, bytes) else data.encode()))
    part = part._replace(read_all=lambda: part.source().read())
    results = read_part(part, Xml(job, TextExtractor(job)), {})
    return [getattr(one, "payload", getattr(one, "rejection", None)) for one in results]


def test_items_of_a_feed_are_documents(file, documents):
    read = documents(file("a.xml", ITEMS), label_column="category", keep_columns="title")
    assert list(read.texts.values()) == ["AT&T\nOne & two\n\nThree", "Second\nLong bold"]
    assert list(read.labels.values()) == ["a", "b"]
    assert [one.kept for one in read.documents.values()] == [("AT&T",), ("Second",)]


def test_entries_of_atom_say_what_is_html():
    feed = (
        '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:title>1 &lt;b 2</a:title>'
        '<a:content type="xhtml"><div><p>One <i>in</i>line.</p><p>Two</p></div></a:content>'
        '</a:entry><a:entry><a:title type="html">A&amp;amp;B</a:title><a:summary>sum</a:summary>'
        "</a:entry></a:feed>"
    )
    assert texts_of(feed) == ["1 <b 2\nOne inline.\nTwo", "A&B\nsum"]
    assert texts_of("<feed><entry>x</entry><entry>y</entry></feed>") == ["x\ny"]  # of another kind


def test_tei_is_its_text(file, documents):
    tei = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><title>Of the file</title>
    </teiHeader><text xml:lang="de"><head>Head</head><p>Wrapped
      and <hi>inl</hi>ine<note>Note.</note> end.</p><lg><l>One</l><l>Two</l></lg></text></TEI>"""
    read = documents(
        file("pos/a.tei", tei).parent.parent, keep_columns="teiHeader/title,text/@lang"
    )
    text = "Head\nWrapped and inline\nNote.\nend.\nOne\nTwo"
    assert read.texts == {"pos/a.tei": text}
    assert read.documents["pos/a.tei"].kept == ("Of the file", "de")
    assert documents(file("pos/a.tei", tei).parent.parent).labels == {"pos/a.tei": "pos"}
    assert texts_of(f"<teiCorpus><teiHeader>x</teiHeader>{tei}</teiCorpus>") == [text]


def test_named_elements_are_documents(file, documents):
    path = file("w.xml", pages())
    read = documents(path, **PAGE_OPTIONS, keep_columns="@id:int64,title")
    assert list(read.texts) == NAMES
    assert set(read.texts.values()) == {"Line\n  two"}
    assert [one.kept for one in read.documents.values()] == [(0, "P0"), (1, "P1"), (2, "P2")]
    whole = documents(path, no_labels=True, xml_element="page").texts
    assert whole[NAMES[1]] == "P1\nLine\n  two"
    with pytest.raises(InputError, match=r"no column 'body'.*'@id', 'title', 'revision'"):
        documents(path, **PAGE_OPTIONS | {"text_column": "body"})
    missed = documents(path, no_labels=True, xml_element="pgae").rejects["w.xml"]
    assert missed.reason == "no-documents" and "'wiki', 'name', 'page'" in missed.detail


@pytest.mark.parametrize("name", ["", "<page>", "wiki/page", "a b", "@id"])
def test_a_name_that_no_element_has_is_refused(name):
    with pytest.raises(UsageError, match="--xml-element must be the name of an element, got"):
        TextOptions(("x",), "out", xml_element=name)


def test_nested_elements_of_one_name_are_one_document():
    data = '<r xmlns:x="x"><d>1<d>2</d></d><x:d>3</x:d></r>'
    assert texts_of(data, xml_element="d") == ["12", "3"]
    assert texts_of(data, xml_element="x:d") == ["3"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<a>one<b>two</b><!-- no --><?no no?> three</a>", "onetwo three"),
        ("<a><b>one</b> <b>two</b> three</a>", "one two three"),
        ("<a>\n  <b>one</b>\n  <b> two\n  lines </b>\n</a>", "one\ntwo\nlines"),
        ("<a><![CDATA[<b>&amp;]]>&#x41;&lt;</a>", "<b>&amp;A<"),
        ("<a>&uuml;&unknown;</a>", "ü&unknown;"),
        ('<!DOCTYPE a [<!ENTITY c "Co"><!ENTITY d "the &c;">]><a>&d;</a>', "the Co"),
        ("<a><text>this</text><more>not this</more></a>", "this"),
        ("<a/>", ""),
        ("\n <?xml version='1.0'?><a>late</a>", "late"),
    ],
)
def test_text_of_elements(data, text):
    assert texts_of(data) == [text]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "shift_jis", "latin-1"]
)
def test_declared_encodings_are_read(encoding, file, documents):
    word = "日本" if encoding == "shift_jis" else "é"
    declared = encoding.removesuffix("-be").removesuffix("-sig")
    data = f'<?xml version="1.0" encoding="{declared}"?><r><p>{word}</p></r>'.encode(encoding)
    assert list(documents(file("a", data), no_labels=True).texts.values()) == [word]
    assert texts_of(data, xml_element="p") == [word]
    packed = documents(file("b.xml.gz", gzip.compress(data)), no_labels=True)
    assert list(packed.texts.values()) == [word]


def test_an_unknown_encoding_is_rejected():
    (rejection,) = texts_of('<?xml version="1.0" encoding="klingon"?><a/>')
    assert (rejection.reason, rejection.detail) == (
        "bad-encoding", "it declares the unknown encoding 'klingon'",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "reason", "detail", "later"),
    [
        (("P1", "P\x0b1"), "bad-xml", "byte 0x0b at offset 143 is a control", True),
        (("P1", "P\udcff1"), "bad-encoding", "byte 0xff at offset 143 is not valid utf-8", True),
        (("P1<", "P1</x><"), "bad-xml", "from byte 122 on: mismatched tag in line 2", False),
        (("P1", "P<x &undefined/>1"), "bad-xml", "from byte 122 on: not well-formed", False),
    ],
)
def test_damage_costs_its_record_or_the_rest(damage, reason, detail, later, file, documents):
    data = pages().replace(*damage).encode("utf-8", "surrogateescape")
    read = documents(file("w.xml", data), **PAGE_OPTIONS)
    assert len(read.texts) == 1 + later and list(read.rejects) == [NAMES[1]]
    assert read.rejects[NAMES[1]].reason == reason
    assert read.rejects[NAMES[1]].detail.startswith(detail)
    assert read.rejects[NAMES[1]].data.startswith(b'<page id="1"><title>P')


@pytest.mark.parametrize("kind", ["a.xml.gz", "a.tar", "a.zip", "a.tar.gz"])
def test_packed_xml_is_read(kind, file, documents, packed):
    data = pages().encode()
    if kind == "a.xml.gz":
        whole = gzip.compress(data)
        cut = documents(file(kind, whole[:-30]), **PAGE_OPTIONS)
        assert set(cut.counts) == {"damaged-stream"}
    else:
        whole = packed(kind[2:], {"w.xml": data})
    assert len(documents(file(kind, whole), **PAGE_OPTIONS).texts) == 3


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (f'<!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHS}]><a>&l9;</a>', "unsafe-xml", "'l3' expands to"),
        ('<!DOCTYPE a [<!ENTITY a "&b;"><!ENTITY b "&a;">]><a/>', "unsafe-xml", "'b' is declared"),
        ('<!DOCTYPE a [<!ENTITY a "<b/>">]><a>&a;</a>', "unsafe-xml", "'a' contains markup"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///a">]><a>&x;</a>', "unsafe-xml", "'x', which"),
        ("<a>" * 200_000 + "</a>" * 200_000, "xml-too-deep", "more than 4096 deep"),
        ("".join(f"<r{n}>" for n in range(9)), "bad-xml", "no element found in line 1, column 37"),
        ("just text", "bad-xml", "syntax error in line 1, column 1"),
        ("<svg><text>x</text></svg>", "no-documents", "a drawing (SVG)"),
    ],
)  # fmt: skip
def test_hostile_files_are_rejected(data, reason, detail, file, documents):
    rejection = documents(file("a.xml", data), no_labels=True).rejects["a.xml"]
    assert rejection.reason == reason and detail in rejection.detail
    assert rejection.data == data.encode()


def test_an_external_dtd_is_not_opened(tmp_path):
    (tmp_path / "a.dtd").write_text('<!ENTITY x "from the file">')
    data = f'<!DOCTYPE a SYSTEM "{tmp_path}/a.dtd" [<!ENTITY % p SYSTEM "a.dtd">%p;]><a>&x;</a>'
    assert texts_of(data) == ["&x;"]


@pytest.mark.parametrize("middle", [b"text " * 2**18, b"<a/>" * 2**17, b"x<a>yz</a>" * 2**16])
def test_a_large_element_is_passed_over(middle, file, documents):
    data = b"<r><p>first</p><p>%s</p><p>last</p></r>" % middle
    options = {"no_labels": True, "xml_element": "p", "max_record_bytes": "64KiB"}
    read = documents(file("a.xml", data), **options)
    assert list(read.texts.values()) == ["first", "last"]
    assert next(iter(read.rejects.values())).detail == (
        f"the record at 15 has {len(middle) + 7} bytes, more than {2**16}"
    )


def test_memory_is_bounded_by_one_element(file, documents):
    data = PAGES % "".join(f"<page>{'word ' * 200}{number}</page>" for number in range(12_000))
    process = psutil.Process()
    path = file("w.xml", data)
    options = TextOptions((str(path),), "out", no_labels=True, xml_element="page")
    part = FilePart("w", lambda: InMemory(data.encode()))
    before = process.memory_info().rss
    most = 0
    for number, _ in enumerate(read_part(part, Xml(options, TextExtractor(options)), {})):
        if not number % 1000:
            most = max(most, process.memory_info().rss - before)
    assert number == 11_999 and most < 2 * len(data) + (12 << 20)  # which is in memory here


def test_xhtml_stays_html(file, documents):
    data = '<?xml version="1.0"?><!-- x --><!DOCTYPE html><html><body><p>x</p></body></html>'
    for name in ("a.xml", "a", "a.xhtml"):
        read = documents(file(name, data), no_labels=True)
        assert read.documents[name].is_html
    assert documents(file("a", "<?xml version='1.0'?><html4>x</html4>"), no_labels=True).texts


def test_a_rejected_element_is_replaced(file, build_text, tmp_path):
    head = '<?xml version="1.0"?><!DOCTYPE wiki [<!ENTITY c "Co">]>\n'
    root = file("w.xml", head + pages().replace("P1", "P\x0b1")).parent
    build_text(root, **PAGE_OPTIONS, keep_columns="title")
    out = tmp_path / "set"
    export(out, tmp_path / "refused")
    (path,) = (tmp_path / "refused/files/w.xml").iterdir()
    path.write_bytes(path.read_bytes().replace(b"P\x0b1", b"&c;"))
    changes = {"out": str(out), "overwrite": True}
    replayed = preprocess(replay_options(out, tmp_path / "refused", (), changes)).manifest
    file("w.xml", head + pages().replace("P1", "&c;"))
    mended = build_text(root, "mended", **PAGE_OPTIONS, keep_columns="title").manifest
    assert replayed.ledger.kept == mended.ledger.kept == 3
    assert replayed.ledger.quarantined == 0


@given(st.lists(st.text("ab <>&\n", max_size=8), max_size=6), st.integers(1, 40))
def test_text_does_not_depend_on_how_a_file_is_cut(words, size):
    from beam_jobs.corpus.formats import xml_elements

    escaped = [word.replace("&", "&amp;").replace("<", "&lt;") for word in words]
    data = "<r>" + "".join(f"<p>{word}<b>{word}</b></p> " for word in escaped) + "</r>"
    data = data.replace(">>", ">").replace("]]>", "")
    expected = texts_of(data, xml_element="p")
    usual = xml_elements.BLOCK_BYTES
    try:
        xml_elements.BLOCK_BYTES = size
        assert texts_of(data, xml_element="p") == expected
    finally:
        xml_elements.BLOCK_BYTES = usual
    expected = [word.strip() + word.strip() for word in words]
    assert len(texts_of(data, xml_element="p")) == max(1, len(words))
