#!/bin/sh
# On a terminal: colours, widths, and nothing that was put into a job by somebody else is ever
# printed raw.
#
# usage: test_terminal.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

command -v script >/dev/null || {
    echo 'script(1) is missing'
    exit 1
}
escape=$(printf '\033')
tab=$(printf '\t')
pawl=$build/pawl

# clean : no control character but line ends in what the last run printed
clean() {
    if LC_ALL=C tr -d '\n\r\040-\176\200-\377' <"$work/out" | grep -q .; then
        complain "$what prints control characters"
    fi
    # U+0080 to U+009F, of which U+009B starts an escape sequence, and what turns the direction.
    if LC_ALL=C grep -q -e "$(printf '\302[\200-\237]')" -e "$(printf '\342\200\256')" "$work/out"; then
        complain "$what prints control characters in UTF-8"
    fi
}

# --- hostile texts, in every place that is shown ---
printf '{"esc": "\\u001b[31mred", "c1": "\302\2332J", "bidi": "\342\200\256abc", "del": "\177", "nul": "\\u0000"}' \
    >"$work/hostile.json"
attempts 0 submit ask --payload "@$work/hostile.json" --queue post \
    --goal "$(printf '\302\2332J\033[2J\342\200\256')"
if [ $status -ne 0 ]; then
    complain 'a goal may be any text'
fi
works ask "$pawl" lease wait key --type human --prompt "$(printf 'really?\302\2332J\033]0;title\007\n\342\200\256')" \
    --choice "$(printf 'yes\302\2332J')"
submits bad --max-attempts 1
letter=$id
works bad sh -c 'printf "\033[31mboom\033]0;x\007\302\2332J\rover" >&2; exit 1'
id=$("$pawl" ls --kind ask --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["id"])')

NO_COLOR=1
export NO_COLOR
for line in "show $id" "events $id" "explain $id" "inbox" "ls" "show $letter" "dlq ls" "dlq show $letter" \
    "events $letter" "show $id --json" "inbox --json" "events $letter --json" "dlq ls --json" \
    "events $letter -f --json" "steps $id" "queues" "stats"; do
    on_terminal 100 "$pawl $line"
    clean
    # shellcheck disable=SC2086 # a list of words
    attempts 0 $line
    case $line in
    *--json*) ;;
    *) clean ;;
    esac
done
on_terminal 100 "$pawl show $id --json"
tr -d '\r' <"$work/out" >"$work/out2"
mv "$work/out2" "$work/out"
json 'a["payload"]["c1"] == "\u009b2J" and a["payload"]["bidi"] == "\u202eabc"'
runs 0 show "$id" --json
json 'a["payload"]["c1"] == "\u009b2J"'
# Complaints quote arguments.
attempts 2 ls "--$(printf '\033[31m')"
says '\x1b[31m'
attempts 2 show "$(printf 'a\302\2332J')"
cp "$work/err" "$work/out"
clean

# --- colours ---
unset NO_COLOR
TERM=xterm
export TERM
on_terminal 100 "$pawl ls"
prints "${escape}[31mdead_lettered"
on_terminal 100 "NO_COLOR=1 $pawl ls"
prints_not "$escape"
on_terminal 100 "TERM=dumb $pawl ls"
prints_not "$escape"
runs 0 ls
prints_not "$escape"
runs 0 show "$letter"
prints_not "$escape"

# --- widths ---
long=$(printf 'k%0100d' 7)
submits "$long"
for columns in 80 100 120; do
    on_terminal $columns "NO_COLOR=1 $pawl ls"
    prints '…'
    LC_ALL=C.UTF-8 awk -v max=$columns '{ sub(/\r$/, ""); gsub(/…/, "."); if (length($0) > max) exit 1 }' \
        "$work/out" || complain "$what prints lines that are too wide"
done
runs 0 ls
prints "$long"
prints_not "$tab"

# Columns stand below each other whatever the script: kinds of two columns a character, and of none.
submits 日本語
submits "$(printf 'e\314\201t\303\251')"
runs 0 ls
python3 -c 'import sys, unicodedata
def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text)
places = set(width(line[:line.index(" default ")])
    for line in open(sys.argv[1], encoding="utf-8") if " default " in line)
sys.exit(0 if len(places) == 1 else 1)' "$work/out" || complain "$what: the columns do not stand below each other"

# --- a progress bar, on a terminal only ---
for kind in a b c; do
    submits crowd --label "of:$kind"
done
runs 0 cancel --filter label=of:a
prints '1 cancelled'
on_terminal 80 "$pawl cancel --filter kind=crowd --filter status=queued --rate 1"
grep -q '1 cancelled.*2 cancelled' "$work/out" || complain "$what shows no progress"
for kind in a b; do
    submits crowd
done
on_terminal 80 "TERM=dumb $pawl cancel --filter kind=crowd --filter status=queued --rate 2"
prints '2 cancelled'
prints_not "$escape"

finish
