#!/bin/sh
# Guest test of the BPF programs: the kernel takes every one of them, and those that it can attach without harm attach.

# shellcheck source=checks
. /usr/lib/checks

all_measure() {
	[ "$(grep -cE '^  (ok|note) +interfaces  ' /doctor)" -eq 3 ]
}

# all_sets_taken: both; but functions cannot be probed on arm64 before Linux 6.4.
all_sets_taken() {
	local sets=2
	! grep -q 'probes of functions (on arm64 since Linux 6.4)' /doctor || [ "$(uname -m)" != aarch64 ] || sets=1
	[ "$(grep -cE '^  (ok|note) +(fentry|tracepoint) probes +(all numbers|without)' /doctor)" -eq "$sets" ]
}

fathom doctor >/doctor
cat /doctor
check "rtt, response and traffic attach to traffic control" all_measure
check "a program attaches to XDP" grep -q '^  ok  *interfaces with --xdp ' /doctor
# A pattern has the programs for interfaces with and without Ethernet loaded.
for command in rtt response traffic hops; do
	check "the kernel takes every program of $command" fathom $command -i 'none*' --duration 1s
done
for command in rtt response traffic; do
	check "the kernel takes every program of $command with XDP" fathom $command -i 'none*' --xdp --duration 1s
done
for options in "" "--xdp" "--sample-interval 0"; do
	# shellcheck disable=SC2086
	check "the kernel takes rtt that counts bytes${options:+ with $options}" \
		fathom rtt -i 'none*' --format ppviz $options --duration 1s
done
for options in "" "--xdp"; do
	# shellcheck disable=SC2086
	check "the kernel takes rtt by interval${options:+ with $options}" \
		fathom rtt -i 'none*' --interval 1s $options --duration 1s
done
for estimator in acknowledged split modes fixed; do
	check "responses are measured by $estimator" fathom response -i lo --estimator "$estimator" --duration 1s
done
check "the kernel takes all that an agent measures, DNS exchanges among it" \
	fathom agent -i lo --measure rtt,response,traffic,profile --format json --output /dev/null --duration 1s
check "the kernel takes the balancer, with all that can be configured" grep -q '^  ok  *forwarding ' /doctor
check "the kernel takes all sets of probes for profiles that it can have" all_sets_taken
finish
