#!/bin/sh
# Guest test of `fathom hops`: the cases of tests/end_to_end/hops that need neither the machine's own time nor tools that the guest lacks.
# shellcheck source=checks
. /usr/lib/checks

cases() {
	FATHOM_BINARY=/usr/bin/fathom RUST_BACKTRACE=0 hops-cases --test-threads 1 --show-output "$@"
}

check "flows are selected, forwarded ones are probed, budgets hold" cases selection
check "silent flows are probed for a while; nothing is left behind, others are left alone" \
	cases lifecycle::a_silent lifecycle::signals lifecycle::an_interface
check "no probe reaches an application" cases harm::a_udp
check "functions of users edit probes and read answers, or are refused" \
	cases programs::the_documented programs::what_an_edit programs::a_program
check "whatever vanishes at whatever moment, no packet goes round" env FATHOM_ROUNDS=10 FATHOM_BINARY=/usr/bin/fathom RUST_BACKTRACE=0 \
	hops-cases --test-threads 1 --show-output vanishing
finish
