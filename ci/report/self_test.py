#!/usr/bin/env python3
"""Breaks a page of the report in one way after the other; check.py has to see each.

    self_test.py PAGE.html"""

import pathlib
import re
import sys
import tempfile

import check

PHONE, DARK = check.VIEWS[0], check.VIEWS[3]


def without_a_group(page):
    return re.sub(r'<g class="series s\d+" data-series=.*?</g>', "", page, count=1, flags=re.S)


def with_an_empty_group(page):
    return re.sub(r'(<g class="series s\d+" data-series="[^"]*">).*?</g>', r"\1</g>", page, count=1, flags=re.S)


def with_a_group_that_is_not_seen(page):
    return page.replace("</style>", "figure [data-series] { color: transparent; }</style>")


def with_body(text):
    return lambda page: page.replace("<main>", f"<main>{text}")


def with_style(rule):
    return lambda page: page.replace("</style>", f"{rule}</style>")


# What is broken, and what is said of it.
BROKEN = [
    (without_a_group, "series"),
    (with_an_empty_group, "nothing is seen of"),
    (with_a_group_that_is_not_seen, "nothing is seen of"),
    (with_body("<script>console.error('broken')</script>"), "console.error: broken"),
    (with_body("<script>console.warn('odd')</script>"), "console.warning: odd"),
    (with_body("<script>nothing.there()</script>"), "exception"),
    (with_body("<img src='http://127.0.0.1:9/picture.png' alt=''>"), "the page asks for"),
    (with_body("<div style='width: 600px'>wide</div>"), "scrolls to the side"),
    (with_body("<p style='color: #cfcfcf'>faint</p>"), "has a contrast of"),
    (with_style(".chart text { font-size: 30px !important; }"), "overlap"),
    (lambda page: page.replace("(prefers-color-scheme: dark)", "(max-width: 1px)"), "light and dark are the same"),
]


def main():
    page = pathlib.Path(sys.argv[1]).read_text()
    unseen = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        broken = pathlib.Path(folder) / "broken.html"
        with check.Browser(pathlib.Path(folder) / "profile") as browser:
            for change, expected in BROKEN:
                text = change(page)
                if text == page:
                    sys.exit(f"the page has nothing to break for: {expected}")
                broken.write_text(text)
                problems = check.problems(browser, broken, [PHONE, DARK])
                if not any(expected in problem for problem in problems):
                    print(f"not seen: {expected}; but {problems}")
                    unseen += 1
    if unseen:
        sys.exit(1)
    print(f"{len(BROKEN)} broken pages, each of them seen")


if __name__ == "__main__":
    main()
