#!/bin/sh
# A critic for the drafts of research.yaml: `pawl work --judge` runs this, with the result on stdin
# as {"payload", "inputs", "result"}, and does what it prints.
case $(cat) in
*'"words": 120'*) echo accept ;;
*) echo '{"decision": "retry", "reason": "that is too short"}' ;;
esac
