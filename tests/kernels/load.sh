#!/bin/sh
# Guest test of the BPF programs: the kernel takes every one of them, and those that it can attach without harm attach.

# shellcheck source=checks
. /usr/lib/checks

both_sets_taken() {
	[ "$(grep -cE '^  (ok|note) +(fentry|tracepoint) probes +(all numbers|without)' /doctor)" -eq 2 ]
}

fathom doctor >/doctor
cat /doctor
check "the kernel takes every program" grep -q '^  ok  *interfaces ' /doctor
check "programs attach to traffic control" grep -qE '^  (ok|note) +attaching  ' /doctor
check "a program attaches to XDP" grep -q '^  ok  *attaching with --xdp ' /doctor
check "the kernel takes both sets of probes for profiles" both_sets_taken
finish
