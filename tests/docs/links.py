#!/usr/bin/env python3
"""Relative links and pictures of all Markdown files lead to files, and #fragments to headings.

usage: links.py BUILD_DIRECTORY SOURCE_DIRECTORY

Every page below docs/ must also be reachable from README.md by links.
"""
import os
import re
import subprocess
import sys

SOURCE = os.path.abspath(sys.argv[2])
LINK = re.compile(r"\]\(([^)\s]+)\)|<img[^>]*\bsrc=\"([^\"]+)\"")
LINKS_MIN = 100


def prose_of(text):
    """The text without code, in which brackets are no links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchor_of(heading):
    """The id that GitHub and most renderers give a heading."""
    heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors_of(text):
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    seen = {}
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", text, re.M):
        anchor = anchor_of(heading)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        yield anchor if count == 0 else f"{anchor}-{count}"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def links_of(text):
    for match in LINK.finditer(prose_of(text)):
        link = match.group(1) or match.group(2)
        if not re.match(r"[a-z][a-z0-9+.-]*:", link):
            yield link


def problem_with(page, text, link):
    path, _, fragment = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(target):
        return "leads nowhere"
    if fragment and target.endswith(".md"):
        there = text if target == page else read(target)
        if fragment not in anchors_of(there):
            return f"{os.path.relpath(target, SOURCE)} has no heading #{fragment}"
    return None


def pages():
    found = subprocess.run([os.path.join(SOURCE, "scripts", "files"), SOURCE], capture_output=True,
                           text=True, check=True).stdout.split("\n")
    return sorted(os.path.normpath(os.path.join(SOURCE, name)) for name in found
                  if name.endswith(".md"))


def unreachable(all_pages):
    reached, todo = set(), [os.path.join(SOURCE, "README.md")]
    while todo:
        page = todo.pop()
        if page in reached or not page.endswith(".md"):
            continue
        reached.add(page)
        for link in links_of(read(page)):
            path = link.partition("#")[0]
            target = os.path.normpath(os.path.join(os.path.dirname(page), path))
            if os.path.isdir(target):
                target = os.path.join(target, "README.md")
            if path and os.path.exists(target):
                todo.append(target)
    docs = os.path.join(SOURCE, "docs") + os.sep
    return [page for page in all_pages if page.startswith(docs) and page not in reached]


def sees_what_is_wrong():
    """A checker that accepts everything would accept these too."""
    page, text = os.path.join(SOURCE, "README.md"), "# One heading\n"
    wrong = ("no-such-file.md", "#no-such-heading", "README.md#no-such-heading")
    right = ("LICENSE", "#one-heading")
    return (all(problem_with(page, text, link) for link in wrong)
            and not any(problem_with(page, text, link) for link in right))


def main():
    failed = not sees_what_is_wrong()
    if failed:
        print("a broken link is not found")
    count = 0
    everything = pages()
    for page in everything:
        text = read(page)
        for link in links_of(text):
            count += 1
            problem = problem_with(page, text, link)
            if problem:
                failed = True
                print(f"{os.path.relpath(page, SOURCE)}: {link}: {problem}")
    for page in unreachable(everything):
        failed = True
        print(f"{os.path.relpath(page, SOURCE)}: no link from README.md leads here")
    if count < LINKS_MIN:
        failed = True
        print(f"only {count} links were found")
    sys.exit(failed)


main()
