#!/usr/bin/env python3
"""Checks names, comments and messages for wording that CONTRIBUTING.md excludes, as far as a pattern can decide.

    scripts/check_words.py [PATH...]     files and folders; those of CHECKED when none is named

Prints a line per finding and fails when there is one. Config keys and fields of JSON and CSV files keep their names: they
are texts in quotes without a space, which are not checked. A line that must keep a word ends with `// words: kept`.
"""

import pathlib
import re
import sys

CHECKED = ["apps", "lib", "test"]
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inl", ".proto"}
HEADERS = {".h", ".cuh", ".inl"}
KEPT = "words: kept"

# Algorithms of the standard library, and views that read well at the call. The names of other functions are verbs.
NAMES_OF = {"all_of", "any_of", "none_of", "rank_of", "sha256_of", "index_of", "size_of", "name_of", "shape_of", "type_of"}

# (pattern, what to write instead) for names in code.
NAMES = [
    (r"\bk(?:Most|Least|Few|Usual|Longest)(?=[A-Z_]|\b)\w*", "kMax, kMin or kDefault"),
    (r"\b[a-z]\w*_an?_\w+", "'per': bytes_per_sample"),
    (r"\b[A-Za-z]\w*[a-z]An?(?=[A-Z][a-z])\w+", "'Per': kBatchesPerCheck"),
    # Where it is declared: behind a type, or as the name of a lambda.
    (r"(?:(?<=\w )|(?<=[^ &][>&*] ))(?<!\breturn )(?<!\belse )(?:\w+::)*\w+_of(?=\()|\b\w+_of(?= = \[)",
     "a verb (find_x, read_x, make_x) or a member"),
    (r"\b\w*(?:[Aa]cquaint|[Ss]tranger|[Ss]ift(?:ed)?(?=\b|_|[A-Z]))\w*",
     "connection, unauthenticated peer, selected"),
]
# (pattern, what to write instead) for comments and messages.
THINGS = (r"(?:backend|batch|block|bucket|byte|call|channel|chunk|class|column|core|device|epoch|file|gpu|group|host|image|lane|"
          r"layer|line|machine|node|op|parameter|process|push|rank|replica|row|run|sample|second|segment|server|socket|step|"
          r"tensor|thread|user|value|worker)")
COUNTED = (r"(?:FLOPs|batches|bytes|calls|elements|files|images|joules|lines|ms|numbers|rounds|samples|steps|threads|times|"
           r"values)")
TEXTS = [
    (r"\barticle [A-Z]\b|\b[Tt]he articles?\b", "the fact itself, or a link"),
    (r"\b(?:tells?|told|say|says|said|knows|knew|hears?|heard|do(?:es)? not know)\b", "reports, prints, warns, has, receives"),
    (r"\brefus(?:e|es|ed|al|als|ing)\b", "rejects"),
    (r"(?<!\b[Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b)\w+", "'is not a'"),
    (r"\b(?:[Ss]trangers?|[Aa]cquaintances?|[Ss]ifted)\b", "unauthenticated peer, connection, selected"),
    (rf"\b(?:once|twice|one|two|three|[0-9]+|{COUNTED}|[Aa]n? \w+) an? {THINGS}\b", "'per'"),
]
# For the whole of a comment: it has no subject.
COMMENTS = [(r"^(?:Of|As|Whether|Nor|Likewise,? (?:of|for))\b", "a sentence with subject and verb, or no comment")]

# For the comment behind a declaration of a header: it must be understood without the declaration's name.
TRAILING = [(r"^of\b", "what it is: 'the samples of this rank'")]

# Names of tests are sentences. A verb counts if it is not that of a clause which one of CLAUSES begins.
# Verbs in the present tense; after a plural, they count without their s, too.
VERBS = set("""
    accepts accumulates adds admits agrees aliases aligns allocates allows answers appears appends applies arrives
    asks assigns attaches averages beats becomes begins belongs binds blocks breaks builds calls cancels captures
    causes changes chooses clips closes comes commits compares completes computes connects consumes contains
    continues contradicts converts copies costs counts covers crashes creates cuts decides declares decodes
    defaults delays delivers depends describes detects differs disagrees divides draws drops encodes ends enters
    equals escapes estimates evaluates examines exceeds excludes exists exits expands explains exports extends
    fails falls fills finds finishes fits flattens flows folds follows forgets formats fuses gathers gets gives
    goes grows handles hands happens hides holds ignores includes interpolates interrupts joins judges keeps knows
    lacks launches leads leaves lets lies limits listens lists loads logs looks loses lowers magnifies makes maps
    marks matches means measures meets merges mirrors moves multiplies names needs notes notices occurs opens
    orders outlives overflows overlaps owns pads paints parses passes pauses permits plots polls prepares prevents
    prints propagates proposes puts quotes raises reaches reads rebuilds receives recognizes reduces refers
    rejects releases remains removes renames renders repeats replaces replays reports requires resets resolves
    restarts restores resumes rethrows returns reuses reveals rewrites rises rounds runs saves scales selects
    sends separates serves sets shares shows shrinks shuffles signs skips sorts spells splits stands starts stays
    steps stops stores strips succeeds suffices suggests suits sums survives swaps switches syncs takes tests
    throws touches trains travels treats trims truncates turns unfreezes updates uses validates waits wakes warns
    wins works wraps writes
""".split())
# These are verbs in all forms.
ALWAYS_VERBS = set("""
    accept agree allow are become began begin can cannot come compute could did do does equal get give grow had
    has have is join keep let make match may must return should stay succeed take throw was were will would write
    wrote
""".split())
# These of VERBS are plurals, too, where they follow one of BEFORE_NOUNS or a comma.
PLURALS = set("""
    averages blocks calls captures changes copies costs counts cuts ends estimates exports folds formats limits
    lists logs maps marks matches names notes orders pads passes plots prints rounds runs saves scales sets shares
    signs steps sums tests trains updates works
""".split())
BEFORE_NOUNS = set("""
    a after all an and another any as at before behind beside between both by each equal every few for from in
    into its many more most no not of on one or other over per same several than the their three to two with
    without
""".split())
ARTICLES = set("a all an both each every its no nothing the".split())
CLAUSES = set("because how if that unless what when where whether which while who whose".split())
TEST_NAME = re.compile(r'\bTEST_CASE(?:_TEMPLATE|_FIXTURE)?\(\s*(?:\w+,\s*)?((?:"(?:\\.|[^"\\\n])*"\s*)+)')

TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<d>[^()\\ ]*)\(.*?\)(?P=d)")|(?P<text>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>'(?:\\.|[^'\\\n])')|(?P<directive>^[ \t]*#[ \t]*include[^\n]*)",
    re.DOTALL | re.MULTILINE,
)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def join_comments(text):
    """(offset, words) of each comment; lines that hold nothing else continue the comment of the line above."""
    blocks = []
    end = -1
    for match in TOKEN.finditer(text):
        if not match["comment"]:
            continue
        words = re.sub(r"^//+ ?|^/\*+|\*/$", "", match["comment"]).strip()
        words = re.sub(r'"[^"]*"|`[^`]*`', lambda quoted: "x" * len(quoted.group()), words)  # a word that is meant as such
        start = text.rfind("\n", 0, match.start()) + 1
        alone = not text[start : match.start()].strip()
        if alone and blocks and not text[end : match.start()].strip() and text.count("\n", end, match.start()) == 1 \
                and blocks[-1][2]:
            blocks[-1][1].append((match.start(), words))
        else:
            blocks.append([match.start(), [(match.start(), words)], alone])
        end = match.end()
    return [(parts, alone) for _, parts, alone in blocks]


def find_in_words(parts, patterns, add):
    """Looks for patterns in the lines of one comment or message, joined so that a phrase may go over two lines."""
    joined = " ".join(words for _, words in parts)
    for pattern, instead in patterns:
        for match in re.finditer(pattern, joined):
            at = 0
            for offset, words in parts:
                if match.start() < at + len(words) + 1:
                    break
                at += len(words) + 1
            add(offset, match.group(), instead)


def is_verb(words, i):
    """True if words[i] of the name of a test is a finite verb."""
    word, before = words[i], words[i - 1] if i else ""
    after = words[i + 1] if i + 1 < len(words) else ""
    if word in ALWAYS_VERBS:
        return True
    if before == "to":
        return False
    if word in PLURALS:
        return after in ARTICLES or (re.match(r"--|[A-Za-z)]", before) is not None and before not in BEFORE_NOUNS)
    if word in VERBS:
        return True
    if not VERBS.intersection((word + "s", word + "es", word[:-1] + "ies")):
        return False
    return (after in ARTICLES or (before.endswith("s") and before not in BEFORE_NOUNS) or before in CLAUSES
            or before in ("all", "it", "none", "only", "others", "they") or (i > 1 and words[i - 2] in ("and", "or")))


def is_sentence(name):
    """True if the name of a test has a verb outside of subordinate clauses."""
    name = re.sub(r"`[^`]*`|'[^' ]*'(?=[ ,]|$)", "x", name)
    words = re.findall(r"[A-Za-z][\w'-]*|--[a-z-]+|[0-9]+|[^\sA-Za-z]", name)
    clauses = 0
    for i, word in enumerate(words):
        if word in CLAUSES and not re.fullmatch(r"of|in|by|\w*ing", (words + [""])[i + 1]):
            clauses += 1
        elif is_verb(words, i):
            if not clauses:
                return True
            clauses -= 1
    return False


def check_text(text, is_header):
    """(line, found, instead) for everything that is wrong in a source."""
    findings = set()
    lines = text.split("\n")

    def add(offset, found, instead):
        number = line_of(text, offset)
        if KEPT not in lines[number - 1]:
            findings.add((number, found, instead))

    code = TOKEN.sub(blank, text)
    for pattern, instead in NAMES:
        for match in re.finditer(pattern, code):
            if match.group() not in NAMES_OF:
                add(match.start(), match.group(), instead)
    for parts, alone in join_comments(text):
        find_in_words(parts, TEXTS + COMMENTS, add)
        if is_header and not alone:
            find_in_words(parts, TRAILING, add)
    previous = None  # adjacent literals are one message
    for match in TOKEN.finditer(text):
        if match["text"] and " " in match["text"]:
            part = (match.start(), match["text"][1:-1])
            if previous and not text[previous[1] : match.start()].strip():
                previous = (previous[0] + [part], match.end())
            else:
                if previous:
                    find_in_words(previous[0], TEXTS, add)
                previous = ([part], match.end())
        elif match["raw"]:
            find_in_words([(match.start(), match["raw"])], TEXTS, add)
    if previous:
        find_in_words(previous[0], TEXTS, add)
    for match in TEST_NAME.finditer(text):
        name = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match[1]))
        if not is_sentence(name):
            add(match.start(), name, "a sentence with a verb as the name of the test")
    for match in re.finditer(r"^\s*\}[;,)]*[ \t]*//(?! namespace\b| extern\b| words: kept)[^\n]*", text, re.MULTILINE):
        add(match.start() + len(match.group()) - len(match.group().lstrip()), match.group().strip(),
            "the comment above the item")
    return sorted(findings)


def sources_in(path):
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in SOURCES)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]] or [root / name for name in CHECKED]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"check_words: no such file or folder: {', '.join(missing)}", file=sys.stderr)
        return 2
    count = files = 0
    for path in paths:
        for file in sources_in(path):
            files += 1
            shown = file.relative_to(root) if file.is_absolute() and file.is_relative_to(root) else file
            for number, found, instead in check_text(file.read_text(), file.suffix in HEADERS):
                print(f"{shown}:{number}: '{found}': write {instead}", file=sys.stderr)
                count += 1
    if count:
        print(f"check_words: {count} findings in {files} files", file=sys.stderr)
        return 1
    print(f"check_words: {files} files pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
