#!/bin/sh
# Guest test of `fathom hops`: the cases of tests/end_to_end/hops that need neither the machine's own time nor tools that the guest lacks.
# shellcheck source=checks
. /usr/lib/checks

export FATHOM_ROUNDS=10

check "flows are selected, forwarded ones are probed, budgets hold" cases hops-cases selection
check "silent flows are probed for a while; nothing is left behind, others are left alone" \
	cases hops-cases lifecycle::a_silent lifecycle::signals lifecycle::an_interface
check "no probe reaches an application" cases hops-cases harm::a_udp
check "functions of users edit probes and read answers, or are refused" \
	cases hops-cases programs::the_documented programs::what_an_edit programs::a_program
check "whatever vanishes at whatever moment, no packet goes round" cases hops-cases vanishing
finish
