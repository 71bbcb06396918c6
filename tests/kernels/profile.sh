#!/bin/sh
# Guest test of `fathom profile`: the cases of tests/end_to_end/profile with the probes of functions, and with tracepoints where the
# kernel's say whose packet was dropped.
# shellcheck source=checks
. /usr/lib/checks

# cases SET: all cases with a set of probes.
cases() {
	FATHOM_BINARY=/usr/bin/fathom FATHOM_PROBE_SET=$1 RUST_BACKTRACE=0 profile-cases --test-threads 1
}

fathom profile --probes >/probes
cat /probes
check "the cases give their profiles by fentry" cases fentry
if grep -A 9 '^tracepoint' /probes | grep -q '  no '; then
	echo "        tracepoints lack something here: only what they have is tried"
else
	check "the cases give their profiles by tracepoints" cases tracepoint
fi
finish
