#!/bin/sh
# Plans from the command line: pawl plan check, show, diff and add, in JSON and YAML; steps that
# `pawl work` does and judges; people who are asked. On a SQLite file, and through a server.
#
# usage: test_plan.sh BUILD SOURCE
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

server=
trap '[ -z "$server" ] || kill -9 "$server"; rm -rf "$work"' EXIT
esc=$(printf '\033')
plans=$source/examples/plans

# wrong COUNT FILE : the plan has so many problems, each is said in a line, and nothing is stored
wrong() {
    runs 2 plan check "$2"
    count=$(wc -l <"$work/err")
    [ "$count" -eq "$1" ] || complain "$what says $count lines, not $1"
}

# --- check: no store is needed, and none is made ---
runs 0 plan check "$plans/research.yaml" "$plans/pipeline.yaml" "$plans/device.yaml"
lines 3
prints 'pipeline.yaml: a plan of 7 steps, valid'
runs 0 plan check "$plans/device.yaml" --json
json 'a == {"ok": True, "steps": 4, "problems": [], "more": False}'

cat >"$work/bad.yaml" <<'END'
# Everything is wrong here.
steps:
  - id: a
    kind: k
    colour: red
    timeout_ms: -3
    retry: {max_attempts: 0}
  - id: b
    deps: [a, zz, b, a]
    selector: "a in (b"
  - kind: nameless
  - {id: a}
  - {id: c, deps: [d]}
  - {id: d, deps: [c]}
  - {id: e, deps: [f]}
  - {id: f, deps: [e]}
  - {id: w, critic: true, wait: {type: human, choices: []}}
  - 17
END
wrong 14 "$work/bad.yaml"
says "$work/bad.yaml: step \"a\": unknown field \"colour\""
says 'step "a": timeout_ms must be a whole number'
says 'step "a": retry.max_attempts must be'
says 'step "b": selector "a in (b"'
says 'step "b" depends on "zz", which is not a step of this plan'
says 'step "b" depends on itself'
says 'step "b" has the duplicate dependency "a"'
says 'steps[2]: id is required'
says 'duplicate step id "a" in steps[0] and steps[3]'
says 'c → d → c'
says 'e → f → e'
says 'a wait step is not run by a worker and takes no critic'
says 'choices must have from 1 to 50 entries'
says 'steps[9]: '
attempts 2 plan check "$work/bad.yaml" --json
json 'not a["ok"] and len(a["problems"]) == 14 and a["steps"] == 10'
json '[p["index"] for p in a["problems"] if p["step"] == "b"] == [1, 1, 1, 1]'
json 'all(p["message"] for p in a["problems"])'

# The same in JSON, on stdin, and with an @ in front.
cat >"$work/two.json" <<'END'
{"steps": [{"id": "a", "deps": ["b"]}, {"id": "b", "deps": ["x"], "y": 1}]}
END
wrong 2 "$work/two.json"
wrong 2 "@$work/two.json"
"$build/pawl" plan check - <"$work/two.json" 2>"$work/err"
[ $? -eq 2 ] || complain 'a bad plan on stdin is taken'
for plan in '[]' '{}' '17' '"a"' '{"steps": {}}' '{"steps": [], "x": 1}'; do
    echo "$plan" >"$work/p.json"
    wrong 1 "$work/p.json"
done

# What is neither JSON nor YAML says where, and why.
not_a_plan() {
    printf '%b' "$1" >"$work/p.yaml"
    runs 2 plan check "$work/p.yaml"
    says "$2"
}
not_a_plan 'steps:\n  - &a {id: x}\n' 'line 2: anchors (&), aliases (*) and tags (!) are not supported'
not_a_plan 'steps: *a\n' 'line 1: anchors'
not_a_plan 'steps: !!seq []\n' 'line 1: anchors'
not_a_plan 'a: 1\nb: 2\na: 3\n' "line 3: duplicate key 'a'"
not_a_plan '[{id: 0x1F}]' "'0x1F' is ambiguous in YAML"
not_a_plan '[{id: 007}]' "'007' is ambiguous in YAML"
not_a_plan '[{id: .5}]' "'.5' is ambiguous in YAML"
not_a_plan 'steps: [\n' 'line 2: invalid YAML'
not_a_plan '[]\n---\n[]\n' 'line 2: only one YAML document'
not_a_plan '' 'is empty'
not_a_plan '# nothing\n' 'is empty'
not_a_plan '\0377\0376\0375' 'not UTF-8'
not_a_plan "$(printf '%0100d' 0 | tr 0 '[')" 'too deep'
echo '{"steps": [' >"$work/p.json"
runs 2 plan check "$work/p.json"
says 'p.json is not valid JSON: byte'
runs 1 plan check "$work/nobody"
says "cannot read $work/nobody"
runs 2 plan check
runs 2 plan
runs 2 plan draw x
says 'check, show, diff, add'
runs 2 plan show "$nobody" "$nobody"
says 'show requires the ID of one job'
runs 2 plan add "$nobody"
says 'add requires the ID of a job and the FILE of a plan'
runs 2 plan check "$work/bad.yaml" --reason x
says '--reason is for add'
runs 2 plan show "$nobody" --from 1
says '--from and --to are for diff'
[ ! -e "$work/pawl.db" ] || complain 'pawl plan check makes a store'

# What YAML says is what JSON says: numbers, texts, lines, nothing.
cat >"$work/types.yaml" <<'END'
- id: "1"
  kind: k
  payload:
    number: 1e5
    text: "1e5"
    zip: "007"
    yes: yes
    truth: True
    nothing: ~
    empty:
    lines: |
      one
      two "2"
    list: [1.10, -0, {a: b}]
END
runs 0 plan check "$work/types.yaml"
echo 'all: wrong' >"$work/wrong.yaml"
runs 2 submit x --plan "@$work/wrong.yaml"
runs 2 submit x --plan "@$work/bad.yaml"
says 'step "a"'
runs 2 submit x --plan 'steps: []'
says 'not valid JSON'
[ ! -e "$work/pawl.db" ] || complain 'a bad plan makes a store'

cat >"$work/worker" <<'END'
#!/bin/sh
input=$(cat)
case $PAWL_STEP in
lost) [ "${PLACE:-}" != bad ] || exit 69 ;;
choose)
    case $input in
    *'"answer"'*) ;;
    *) exec "$PAWL" lease verdict needs_user --prompt 'Which?' --choice red --choice blue \
        --assignee ada --timeout 1h --default blue --reason 'two fit' ;;
    esac
    ;;
again) [ "$PAWL_ATTEMPT" -gt 1 ] || exec "$PAWL" lease verdict retry --reason 'once more' ;;
esac
printf '%s' "$input"
END
chmod +x "$work/worker"
PAWL=$build/pawl
export PAWL

# does RESOURCE : a worker does all steps of kind k that it can
does() {
    resource=$1
    shift
    "$build/pawl" work --kind k --resource "$resource" --drain "$@" -- "$work/worker" \
        >"$work/out" 2>"$work/err" </dev/null || complain "a worker on $resource fails"
}

# judges TEXT : a critic says the same of all steps of kind k
judges() {
    "$build/pawl" work --kind k --judge --drain -- echo "$1" >"$work/out" 2>"$work/err" </dev/null ||
        complain "a critic that says $1 fails"
}

on_a_store() {
    attempts 0 submit typed --plan "@$work/types.yaml"
    id=$(cat "$work/out")
    runs 0 steps "$id" --json
    json 'a["steps"][0]["payload"] == {"number": 1e5, "text": "1e5", "zip": "007", "yes": "yes",
        "truth": True, "nothing": None, "empty": None, "lines": "one\ntwo \"2\"\n",
        "list": [1.10, -0, {"a": "b"}]}'
    prints '1.10'
    runs 0 cancel "$id"

    # --- show: a tree, each step once ---
    submits tree --plan '[{"id": "root", "kind": "k"}, {"id": "left", "kind": "k", "deps": ["root"]},
        {"id": "right", "kind": "k", "deps": ["root"]}, {"id": "low", "kind": "k", "deps": ["right"]},
        {"id": "end", "kind": "k", "deps": ["left", "low"]}]'
    tree=$id
    runs 0 plan show "$tree"
    prints 'The job is queued; plan version 1, 0 of 5 steps succeeded'
    prints 'root      pending'
    prints '├─ left   waiting_deps'
    prints '└─ right  waiting_deps'
    prints '   ↓ low  waiting_deps'
    prints '   ↓ end  waiting_deps'
    prints 'also after left'
    prints '* the longest chain: root → right → low → end'
    does bench-1
    has_status "$tree" completed
    runs 0 plan show "$tree"
    prints '5 of 5 steps succeeded'
    prints 'bench-1'
    prints '* the critical path, '
    runs 0 plan show "$tree" --json
    json 'a["status"] == "completed" and a["plan_version"] == 1'
    json 'all(s["duration_ms"] >= 0 and s["started_at"] <= s["ended_at"] for s in a["steps"])'
    json 'a["critical_path"]["steps"][0] == "root" and a["critical_path"]["steps"][-1] == "end"'
    json 'a["critical_path"]["duration_ms"] == sum(s["duration_ms"] for s in a["steps"]
        if s["id"] in a["critical_path"]["steps"])'
    runs 0 resources
    prints 'No resources registered.'
    runs 3 plan show "$nobody"
    runs 2 plan show nonsense
    submits plain
    runs 0 plan show "$id"
    prints 'The job has no plan.'
    runs 3 plan diff "$id"
    says 'no plan'
    runs 0 cancel "$id"

    # --- a step that is moved to another resource, with its inputs ---
    submits moved --plan '[{"id": "first", "kind": "k", "payload": 7}, {"id": "lost", "kind": "k",
        "deps": ["first"], "capabilities": ["lift"], "selector": "floor in (1, 2)"}]'
    PLACE=bad does bad --capability lift --label floor:1
    runs 0 plan show "$id"
    prints 'switching_resource'
    PLACE=bad does bad --capability lift --label floor:1
    does good --capability lift --label floor:3
    does good --capability other --label floor:2
    has_status "$id" running
    does good --capability lift --label floor:2
    has_status "$id" completed
    runs 0 show "$id" --json
    json 'a["result"] == {"payload": None, "inputs": {"first": {"payload": 7, "inputs": {}}}}'
    runs 0 steps "$id" --json
    json '[h["resource_id"] for h in a["steps"][1]["history"] if h["type"] == "step_leased"] == ["bad", "good"]'

    # --- a critic, and a new plan ---
    echo '[{"id": "a", "kind": "k"}, {"id": "b", "kind": "k", "deps": ["a"], "critic": true,
        "retry": {"initial_ms": 1}}, {"id": "c", "kind": "k", "deps": ["b"]}]' >"$work/plan.json"
    submits judged --plan "@$work/plan.json"
    judged=$id
    does desk
    runs 0 plan show "$judged"
    prints 'finished, awaiting review'
    "$build/pawl" work --kind k --judge --once -- echo nonsense >"$work/out" 2>"$work/err" </dev/null
    says 'decision'
    says 'released'
    judges '{"decision": "retry", "reason": "too short"}'
    sleep 0.05
    does desk
    runs 4 plan add "$judged" "$work/plan.json"
    says 'replan'
    judges replan
    cat >"$work/plan.yaml" <<'END'
steps:
  - {id: a, kind: k}
  - {id: b, kind: k, deps: [a], payload: {better: true}}
  - {id: d, kind: k, deps: [a]}
END
    runs 3 plan add "$nobody" "$work/plan.yaml"
    runs 2 plan add "$judged" "$work/bad.yaml"
    says 'step "a"'
    runs 2 plan add "$judged" "$work/wrong.yaml"
    runs 0 plan add "$judged" "$work/plan.yaml" --reason 'a better way'
    prints 'plan version 2'
    runs 0 plan diff "$judged"
    prints 'Version 1 → 2, by '
    prints ': a better way'
    prints '+ d after a'
    prints '- c'
    prints '~ b'
    prints 'payload: nothing → {"better":true}'
    prints 'critic: true → nothing'
    prints '1 step unchanged; results kept: a'
    runs 0 plan diff "$judged" --json
    json '(a["from"], a["to"], a["same"], a["kept"]) == (1, 2, 1, ["a"])'
    json '[(c["step"], c["change"]) for c in a["changes"]] == [("b", "changed"), ("d", "added"), ("c", "removed")]'
    json '[v["reason"] for v in a["versions"]] == [None, "a better way"]'
    runs 0 plan diff "$judged" --from 0 --to 1
    prints 'Version 0 → 1'
    prints '+ c after b'
    runs 0 plan diff "$judged" --from 2 --to 1
    prints '+ c after b'
    runs 3 plan diff "$judged" --to 3
    says 'versions 1 to 2, but no version 3'
    runs 2 plan diff "$judged" --to first
    does desk
    has_status "$judged" completed
    runs 0 verify "$judged"

    # --- people: asked by a worker, with a deadline; answered once, by name ---
    submits asking --plan '[{"id": "choose", "kind": "k"}, {"id": "again", "kind": "k",
        "deps": ["choose"], "retry": {"initial_ms": 1}}]'
    does desk
    runs 0 inbox
    prints 'Which?'
    prints 'ada'
    prints 'then blue'
    runs 0 inbox --assignee bob
    prints 'No open questions.'
    runs 0 inbox --assignee ada --json
    json 'len(a["questions"]) == 1 and a["questions"][0]["step"] == "choose"'
    json 'a["questions"][0]["default_answer"] == "blue" and a["questions"][0]["until"] is not None'
    runs 0 plan show "$id"
    prints 'The job is waiting'
    prints 'needs_user'
    runs 2 approve "$id" choose --answer green
    says 'red, blue'
    runs 0 approve "$id" choose --answer red --by ada
    runs 0 approve "$id" choose --answer red --by ada
    runs 4 approve "$id" choose --answer blue --by bob
    says 'already answered'
    does desk
    sleep 0.05
    does desk
    has_status "$id" completed
    runs 0 steps "$id" --json
    json 'a["steps"][0]["result"] == {"payload": None, "inputs": {}, "answer": "red"}'
    json '(a["steps"][0]["answer"], a["steps"][0]["answered_by"]) == ("red", "ada")'
    json 'a["steps"][0]["started_at"] <= a["steps"][0]["answered_at"] <= a["steps"][0]["ended_at"]'
    json '[h["reason"] for h in a["steps"][1]["history"] if h["verdict"] == "retry"] == ["once more"]'
    runs 0 plan show "$id"
    prints 'answered red by ada'

    # --- a deadline: the default answer, or else "timeout" ---
    submits deadline --plan '[{"id": "x", "wait": {"type": "human", "prompt": "x?", "timeout_ms": 50,
        "choices": ["y", "n"], "default_answer": "n"}},
        {"id": "z", "wait": {"type": "human", "prompt": "z?", "timeout_ms": 50}}]'
    runs 0 show "$id" --json
    tries=0
    until "$build/pawl" show "$id" --json | grep -q '"status":"completed"' || [ $tries -gt 100 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    runs 0 steps "$id" --json
    json '[s["result"] for s in a["steps"]] == ["n", "timeout"]'
    json '[s["answered_by"] for s in a["steps"]] == ["pawl", "pawl"]'
    runs 4 approve "$id" x --answer y

    # --- nothing of a plan reaches a terminal as it is ---
    hostile='\u001b]0;owned\u0007\u001b[2J\u202e\u009b31m'
    submits hostile --plan "[{\"id\": \"ask\", \"payload\": \"$hostile\",
        \"wait\": {\"type\": \"human\", \"prompt\": \"$hostile\", \"choices\": [\"$hostile\"]}}]"
    for verb in "plan show $id" "plan diff $id" "plan show $id --json" "plan diff $id --json" \
        "inbox" "inbox --json" "steps $id"; do
        on_terminal 200 "'$build/pawl' $verb"
        tr -d '\r\n' <"$work/out" | sed "s/$esc\[[0-9]*m//g" >"$work/seen"
        if grep -q -e "$esc" -e "$(printf '\302\233')" -e "$(printf '\342\200\256')" "$work/seen"; then
            complain "pawl $verb lets control characters through"
        fi
    done
    printf 'steps:\n  - {id: "a\\e[2Jb", colour: "\\e]0;x\\a"}\n' >"$work/h.yaml"
    runs 2 plan check "$work/h.yaml"
    ! grep -q "$esc" "$work/err" || complain 'pawl plan check lets control characters through'
    runs 0 cancel "$id"
}

on_a_store

: >"$work/server.log"
"$build/pawl" serve --store "sqlite:$work/served.db" --listen 127.0.0.1:0 \
    >"$work/server.log" 2>&1 </dev/null &
server=$!
tries=0
port=
while [ -z "$port" ] && [ $tries -lt 200 ]; do
    sleep 0.05
    port=$(sed -n 's/.* on port \([0-9]*\).*/\1/p' "$work/server.log")
    tries=$((tries + 1))
done
PAWL_STORE=http://127.0.0.1:$port
on_a_store

# --- over HTTP as it is ---
url=$PAWL_STORE/v1/jobs/$judged/plan/diff
curl -s "$url?from=0&to=1" >"$work/out"
what="GET $url"
echo >>"$work/out"
json '(a["from"], a["to"], len(a["changes"])) == (0, 1, 3)'
curl -s "$url?to=9" | grep -q '"code":"not_found"' || complain 'a version that is not there is found'
curl -s "$PAWL_STORE/v1/inbox?assignee=nobody" | grep -q '"questions":\[\]' ||
    complain 'the inbox of nobody is not empty'

# --- the examples, with a bench whose probe is broken ---
cd "$plans" || exit
all() {
    "$build/pawl" work --resource "$1" --capability web serial --label site:lab probe:new \
        --kind outline search draft publish extract transform merge load flash measure report \
        --drain -- ./worker.sh >"$work/out" 2>"$work/err" || complain "a worker on $1 fails"
}
submits device --plan @device.yaml
device=$id
submits pipeline --plan @pipeline.yaml
pipeline=$id
submits research --plan @research.yaml
research=$id
tries=0
until "$build/pawl" plan show "$device" | grep -q 'the probe does not answer' || [ $tries -eq 100 ]; do
    NO_PROBE=1 all bench-1 # and once more when its retry is due
    tries=$((tries + 1))
    sleep 0.05
done
runs 0 plan show "$device"
prints 'the probe does not answer'
all bench-2
has_status "$device" completed
has_status "$pipeline" completed
runs 0 steps "$pipeline" --json
json '[s["result"] for s in a["steps"] if s["id"] == "merge"] == [{"parts": 4}]'
tries=0
until "$build/pawl" inbox --assignee editor | grep -q 'Publish the draft?' || [ $tries -eq 100 ]; do
    "$build/pawl" work --judge --kind draft --drain -- ./critic.sh 2>"$work/err"
    all bench-2
    tries=$((tries + 1))
    sleep 0.05
done
runs 0 inbox --assignee editor
prints 'Publish the draft?'
runs 0 approve "$research" approval --answer publish
all bench-2
runs 0 show "$research" --json
json 'a["status"] == "completed" and a["result"] == {"published": True}'
finish
