#!/bin/sh
# Guest test of the BPF programs: the kernel takes every one of them, and those that it can attach without harm attach.

# shellcheck source=checks
. /usr/lib/checks

every_program_taken() {
	[ "$(grep -cE '^  ok +interfaces ' /doctor)" -eq 2 ]
}

both_sets_taken() {
	[ "$(grep -cE '^  (ok|note) +(fentry|tracepoint) probes +(all numbers|without)' /doctor)" -eq 2 ]
}

fathom doctor >/doctor
cat /doctor
check "the kernel takes every program of rtt and response" every_program_taken
check "programs attach to traffic control" grep -qE '^  (ok|note) +attaching  ' /doctor
check "a program attaches to XDP" grep -q '^  ok  *attaching with --xdp ' /doctor
for estimator in acknowledged split modes fixed; do
	check "responses are measured by $estimator" fathom response -i lo --estimator "$estimator" --duration 1s
done
check "the kernel takes the balancer" grep -q '^  ok  *forwarding ' /doctor
check "the kernel takes both sets of probes for profiles" both_sets_taken
finish
