"""A page as data, in Markdown and HTML."""

from __future__ import annotations

import base64

from eddyscope.reproduction.blocks import Heading, Image, Paragraph, Table, markdown, one_file

HOSTILE = '<script src="https://example.org/x.js"></script>'


def test_markdown():
    text = markdown(
        [
            Heading(2, "H*"),
            Paragraph(f"a `H*` H* {HOSTILE}"),
            Table(("x", "y"), (("1|2", "**b**"),)),
            Image("f.png", "f"),
        ]
    )
    assert text == (
        '## H\\*\n\na `H*` H\\* &lt;script src="https://example.org/x.js">&lt;/script>\n\n'
        "| x | y |\n| --- | --- |\n| 1\\|2 | **b** |\n\n![f](f.png)\n"
    )


def test_html_is_one_file_and_escapes_what_it_shows(tmp_path):
    (tmp_path / "f.png").write_bytes(b"image")
    page = one_file(
        [
            Heading(1, "A < B"),
            Paragraph(f"`code H*` **bold** *soft* H* {HOSTILE}"),
            Table(("x",), ((HOSTILE,),)),
            Image("f.png", '"'),
        ],
        tmp_path,
    )
    assert (
        "<title>A &lt; B</title>" in page
        and "<code>code H&#42;</code> <strong>bold</strong> <em>soft</em> H&#42;" in page
    )
    assert "<script" not in page
    assert base64.b64encode(b"image").decode() in page
